//! What a receive loop requests for a disposition.

use std::{borrow::Cow, time::Duration};

use aws_sdk_sqs::{
    operation::send_message::builders::SendMessageInputBuilder,
    types::{self, MessageSystemAttributeName as System},
};
use consign_core::{
    Disposition, Message,
    message::ApplicationProperties,
    settlement::DeadLetter,
    transport::{ErrorKind, SendError},
    wire::fields,
};

use crate::{
    Queue,
    layout::Layout,
    names::{self, Meaning, meaning},
    read::{Read, packed, read, system},
    write::session,
};

/// The longest visibility timeout. SQS refuses one that ends more than 12 h after the receive, and the handler took some time.
const LONGEST: Duration = Duration::from_secs(11 * 60 * 60);

/// What a receive loop requests; see [`settlement`].
#[derive(Clone, Debug, PartialEq)]
pub enum Settlement {
    /// `DeleteMessage`.
    Complete,
    /// `ChangeMessageVisibility`.
    Abandon {
        /// The seconds until the message is delivered again. 0 is at once.
        visibility_timeout: i32,
    },
    /// `SendMessage` with the copy of [`dead_letter`] to a queue for dead letters, and then `DeleteMessage`.
    DeadLetter(Box<SendMessageInputBuilder>),
}

/// Returns what to request for a disposition of a message that was received.
///
/// `Abandon` and `Defer` make it available again, at once or after the [delay](consign_core::settlement::Changes::delay), of at
/// most 11 h: SQS permits 12 h from the receive on. Their property changes are not kept: SQS cannot change a message. SQS counts the delivery.
///
/// `queue` is the type of the queue for dead letters. That of a FIFO queue is a FIFO queue.
///
/// # Errors
///
/// As [`dead_letter`].
pub fn settlement(received: &types::Message, disposition: Disposition, queue: Queue) -> Result<Settlement, SendError> {
    match disposition {
        Disposition::Complete => Ok(Settlement::Complete),
        Disposition::Abandon(changes) | Disposition::Defer(changes) => {
            let delay = changes.delay().unwrap_or_default().min(LONGEST);
            let visibility_timeout = i32::try_from(delay.as_millis().div_ceil(1_000)).unwrap_or_default();
            Ok(Settlement::Abandon { visibility_timeout })
        }
        Disposition::DeadLetter(letter) => {
            dead_letter(received, *letter, queue).map(Box::new).map(Settlement::DeadLetter)
        }
    }
}

/// Returns the request that sends the copy of a message to a queue for dead letters: with the reason and the description of the
/// dead letter as attributes, with its body unchanged, and with its other attributes unchanged where there is space for them. The
/// others are in the attribute `Sb-Packed`.
///
/// Send it, wait for the answer, and then delete the message. A failure in between leaves two messages, never none: a FIFO
/// queue drops the second copy if that is sent within 5 minutes. It knows the copy by the id that SQS gave to the message, which a
/// message that is sent again does not have. The copy keeps the MessageId of
/// [`from_sqs`](crate::from_sqs). An attribute that cannot be read is an application property of the copy.
///
/// If the copy has more than 1 MiB, the description and the property changes are left out.
///
/// # Errors
///
/// [`MessageSizeExceeded`](ErrorKind::MessageSizeExceeded) if there is no space for the reason either: leave this message to the
/// redrive policy of its queue. [`InvalidOperation`](ErrorKind::InvalidOperation) and
/// [`Serialization`](ErrorKind::Serialization) as [`to_sqs`](crate::to_sqs), for a FIFO queue.
pub fn dead_letter(
    received: &types::Message,
    mut letter: DeadLetter,
    queue: Queue,
) -> Result<SendMessageInputBuilder, SendError> {
    let read = read(received);
    letter.fit(read.message.properties());
    let alone = DeadLetter::new(letter.reason.clone(), "");
    match copy(received, &read, letter, queue) {
        Err(error) if error.kind() == ErrorKind::MessageSizeExceeded => copy(received, &read, alone, queue),
        copied => copied,
    }
}

fn copy(
    received: &types::Message,
    read: &Read,
    letter: DeadLetter,
    queue: Queue,
) -> Result<SendMessageInputBuilder, SendError> {
    let mut added = ApplicationProperties::new();
    letter.write_to(&mut added);
    let is_replaced =
        |name: &str| [DeadLetter::REASON, DeadLetter::DESCRIPTION].contains(&name) || added.get(name).is_some();
    let body = received.body().unwrap_or_default();
    let mut layout = Layout::default();
    let attributes = received.message_attributes();
    // The body cannot be read without these.
    for name in [names::BODY, names::SECTIONS] {
        if let Some(value) = attributes.and_then(|all| all.get(name)).filter(|_| !is_unreadable(read, name)) {
            layout.raw(name, value);
        }
    }
    for (name, value) in added.iter() {
        layout.property(name.to_owned(), Cow::Owned(value.clone()));
    }
    // That of another producer may have more characters than a SessionId that is written as one.
    let own = system(received, &System::MessageGroupId).filter(|_| queue == Queue::Fifo);
    let group = match own {
        Some(own) => Some(own.to_owned()),
        None => session(&read.message, queue)?,
    };
    let mut members = packed(received).unwrap_or_default();
    members.retain(|name, _| !is_unreadable(read, name));
    let has = |name: &str| {
        let is_there = attributes.is_some_and(|all| all.contains_key(name)) || members.contains_key(name);
        is_there && !is_unreadable(read, name)
    };
    keep_ids(&read.message, group.as_deref(), &has, &mut layout);
    let mut others: Vec<_> = attributes.into_iter().flatten().collect();
    others.sort_unstable_by_key(|(name, _)| *name);
    for (name, value) in others {
        let is_elsewhere = [names::BODY, names::SECTIONS, names::PACKED].contains(&name.as_str());
        let is_property = matches!(meaning(name), Meaning::Property);
        if is_elsewhere || is_unreadable(read, name) || is_property && is_replaced(name) {
            continue;
        }
        layout.raw(name, value);
    }
    for name in &read.unreadable {
        if let Some(value) = read.message.application_properties().get(name) {
            layout.property(name.as_str(), Cow::Borrowed(value));
        }
    }
    for (name, value) in members {
        if !matches!(meaning(&name), Meaning::Typed(key) if is_replaced(key)) {
            layout.packed(name, value);
        }
    }
    Ok(SendMessageInputBuilder::default()
        .message_body(body)
        .set_message_attributes(Some(layout.attributes(body)?))
        .set_message_deduplication_id(received.message_id().filter(|_| queue == Queue::Fifo).map(str::to_owned))
        .set_message_group_id(group))
}

fn is_unreadable(read: &Read, name: &str) -> bool {
    read.unreadable.iter().any(|unreadable| unreadable == name)
}

/// Adds the ids that SQS has set, if the copy does not have them by itself.
fn keep_ids<'a>(message: &'a Message, group: Option<&str>, has: &dyn Fn(&str) -> bool, layout: &mut Layout<'a>) {
    if let Some(id) = message.message_id().filter(|_| !has("Sb-Message-Id")) {
        layout.text("Sb-Message-Id", id);
        layout.text(fields::MESSAGE_ID_STAMPED, "1");
    }
    if let Some(session) = message.session_id().filter(|session| group != Some(*session) && !has("Sb-Session-Id")) {
        layout.text("Sb-Session-Id", session);
    }
}
