use std::{borrow::Cow, time::Duration};

use aws_sdk_sqs::operation::send_message::builders::SendMessageInputBuilder;
use consign_core::{
    Message,
    message::PassThrough,
    time::Timestamp,
    transport::{Capability, ErrorKind, SendError, Unsupported},
    wire::fields,
};

use crate::{Queue, body, layout::Layout, names, queue::id};

/// The longest delay of a message.
const LONGEST_DELAY: Duration = Duration::from_secs(900);

/// Returns the request that sends a message: all of it but the URL of the queue.
///
/// ```no_run
/// use consign::{
///     Message,
///     time::{Clock, SystemClock},
///     transport::SendError,
/// };
/// use consign_convert_sqs::{Queue, aws_sdk_sqs::Client, confirmed, to_sqs};
///
/// async fn publish(client: &Client, url: &str, message: &Message) -> Result<(), SendError> {
///     let request = to_sqs(message, Queue::Standard, SystemClock::new().now().utc)?;
///     confirmed(request.queue_url(url).send_with(client).await)
/// }
/// ```
///
/// `now` is the present time. A scheduled time after it is `DelaySeconds`, rounded up.
///
/// # Errors
///
/// - [`NotSupported`](ErrorKind::NotSupported) for a time to live, for a scheduled time more than 900 s from `now`, and for one
///   after `now` on a FIFO queue.
/// - [`InvalidOperation`](ErrorKind::InvalidOperation) for a message without a SessionId on a FIFO queue: see
///   [`SendError::is_session_required`].
/// - [`Serialization`](ErrorKind::Serialization) for a SessionId or a MessageId that has more than 128 bytes as an id of a FIFO
///   queue, and for a value of a type that this version does not support.
/// - [`MessageSizeExceeded`](ErrorKind::MessageSizeExceeded) for a body and attributes of more than 1 MiB. A queue may have a
///   lower limit, which SQS checks.
/// - Those of [`Message::check`].
pub fn to_sqs(message: &Message, queue: Queue, now: Timestamp) -> Result<SendMessageInputBuilder, SendError> {
    message.check()?;
    if message.time_to_live().is_some() {
        return Err(Unsupported::new(Capability::TimeToLive).into());
    }
    let delay = delay(message, queue, now)?;
    let session = session(message, queue)?;
    let body = body::write(message.body()).ok_or_else(unknown)?;
    let mut layout = Layout::default();
    if let Some(kind) = body.kind {
        layout.text(names::BODY, kind);
    }
    if let Some(lengths) = body.sections {
        layout.text(names::SECTIONS, lengths);
    }
    fields_of(message, session.as_deref(), &mut layout)?;
    for (name, value) in message.application_properties().iter() {
        layout.property(name, Cow::Borrowed(value));
    }
    let attributes = layout.attributes(&body.text)?;
    Ok(SendMessageInputBuilder::default()
        .message_body(body.text)
        .set_message_attributes((!attributes.is_empty()).then_some(attributes))
        .set_delay_seconds(delay)
        .set_message_deduplication_id(deduplication(message, queue)?)
        .set_message_group_id(session))
}

fn unknown() -> SendError {
    SendError::new(ErrorKind::Serialization).with_detail("a value has a type that this conversion does not support")
}

/// The group of a message in a FIFO queue.
pub(crate) fn session(message: &Message, queue: Queue) -> Result<Option<String>, SendError> {
    match (queue, message.session_id()) {
        (Queue::Standard, _) => Ok(None),
        (Queue::Fifo, Some(session)) => id(session, "SessionId").map(Some),
        (Queue::Fifo, None) => Err(SendError::session_required()),
    }
}

fn deduplication(message: &Message, queue: Queue) -> Result<Option<String>, SendError> {
    message.message_id().filter(|_| queue == Queue::Fifo).map(|message| id(message, "MessageId")).transpose()
}

fn delay(message: &Message, queue: Queue, now: Timestamp) -> Result<Option<i32>, SendError> {
    let delay = message.scheduled_enqueue_time().map_or(Duration::ZERO, |time| time.saturating_since(now));
    let why = match queue {
        _ if delay.is_zero() => return Ok(None),
        Queue::Fifo => "a FIFO queue of SQS delays no single message",
        Queue::Standard if delay > LONGEST_DELAY => "SQS delays a message by at most 900 s",
        Queue::Standard => return Ok(i32::try_from(delay.as_millis().div_ceil(1_000)).ok()),
    };
    Err(SendError::new(ErrorKind::NotSupported).with_detail(why))
}

/// The properties other than application properties, and without the SessionId if the group of the message has it.
fn fields_of<'a>(message: &'a Message, group: Option<&str>, layout: &mut Layout<'a>) -> Result<(), SendError> {
    for (name, value) in fields::texts(message.properties()) {
        match name {
            "Sb-Content-Type" => layout.text(names::CONTENT_TYPE, value),
            "Sb-Session-Id" if group == Some(value) => {}
            name => layout.text(name, value),
        }
    }
    if let Some(time) = message.scheduled_enqueue_time() {
        layout.text(names::SCHEDULED, time.as_millis().to_string());
    }
    let Some(rest) = message.pass_through() else { return Ok(()) };
    let mut others = rest.clone();
    if let Some(encoding) = others.content_encoding.take() {
        layout.text(names::CONTENT_ENCODING, encoding);
    }
    if others != PassThrough::default() {
        let json = serde_json::to_string(&fields::Rest::new(&others)).map_err(|_| unknown())?;
        layout.text(fields::PASS_THROUGH, names::json(json));
    }
    Ok(())
}
