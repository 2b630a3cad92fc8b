use std::borrow::Cow;

use tower_layer::Layer;

use super::{
    InteropError,
    deadline::Deadline,
    fill::{Found, text, without_mark},
    instant::{instant, span},
};
use crate::{
    Message, body,
    codecs::{DataContractBinary, Limits},
    message::{ApplicationProperties, PropertyValue},
    middleware::{Reader, Reading},
    time::{Clock, Timestamp},
};

/// What NServiceBus adds to a message that it moves to an error queue, copies to an audit queue or retries with a delay. The last
/// is from ServiceControl, for one that it returns to its queue. These messages do not expire.
const MOVED: [&str; 4] = [
    "NServiceBus.FailedQ",
    "NServiceBus.ProcessingEnded",
    "NServiceBus.Retries",
    "ServiceControl.Retry.UniqueMessageId",
];

/// A layer that reads messages of NServiceBus; see the [module](super).
#[derive(Clone, Debug, Default)]
pub struct NServiceBusLayer {
    deadline: Deadline,
}

impl NServiceBusLayer {
    /// The application property that has the names of all types, with `;` between them.
    pub const ENCLOSED_MESSAGE_TYPES: &'static str = "NServiceBus.EnclosedMessageTypes";
    /// The application property of the MessageId.
    pub const MESSAGE_ID: &'static str = "NServiceBus.MessageId";
    /// The application property of the CorrelationId.
    pub const CORRELATION_ID: &'static str = "NServiceBus.CorrelationId";
    /// The application property of the ContentType.
    pub const CONTENT_TYPE: &'static str = "NServiceBus.ContentType";
    /// The application property with the encoding of the body.
    pub const ENCODING: &'static str = "NServiceBus.Transport.Encoding";
    /// The value of [`ENCODING`](Self::ENCODING) for a body that is a .NET binary XML document with the bytes inside.
    pub const BYTE_ARRAY: &'static str = "wcf/byte-array";

    /// The application property of the instant when it was sent.
    pub const TIME_SENT: &'static str = "NServiceBus.TimeSent";
    /// The application property of how long after that it expires.
    pub const TIME_TO_BE_RECEIVED: &'static str = "NServiceBus.TimeToBeReceived";

    /// Reads the headers of messages. They expire by the [`SystemClock`](crate::time::SystemClock).
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates the layer, like [`new`](Self::new), with another clock.
    #[must_use]
    pub fn with_clock(clock: impl Clock) -> Self {
        Self { deadline: Deadline::new(clock) }
    }
}

impl<S> Layer<S> for NServiceBusLayer {
    type Service = NServiceBus<S>;

    fn layer(&self, inner: S) -> NServiceBus<S> {
        Reading::new(inner, self.clone())
    }
}

/// Reads what NServiceBus has sent; see the [module](super).
pub(super) type NServiceBus<S> = Reading<S, NServiceBusLayer>;

impl Reader for NServiceBusLayer {
    type Error = InteropError;

    fn read(&self, message: Message) -> Result<Message, InteropError> {
        let properties = message.application_properties();
        if properties.is_empty() {
            return Ok(message);
        }
        if text(properties, Self::ENCODING)?.is_some_and(|encoding| &*encoding == Self::BYTE_ARRAY) {
            return self.read(unwrapped(message)?);
        }
        let types = text(properties, Self::ENCLOSED_MESSAGE_TYPES)?;
        let found = Found {
            message_id: text(properties, Self::MESSAGE_ID)?,
            correlation_id: text(properties, Self::CORRELATION_ID)?,
            content_type: text(properties, Self::CONTENT_TYPE)?,
            subject: types
                .as_deref()
                .map(|types| first_name(types).map(Into::into).ok_or(InteropError::NoType))
                .transpose()?,
            to: None,
        };
        if found == Found::default() {
            return Ok(message);
        }
        let mut message = message;
        let properties = message.properties_mut();
        if types.as_deref().is_some_and(|types| is_cut(properties.subject(), types)) {
            properties.clear_subject();
        }
        found.fill(properties)?;
        let message = without_mark(message);
        match expiration(message.application_properties()) {
            Some(at) => self.deadline.check(message, at),
            None => Ok(message),
        }
    }
}

/// Returns the message with the bytes inside of its body as the body. The property that declares the encoding is removed: it is
/// no longer true, and the next layer of this kind would read the body again.
fn unwrapped(message: Message) -> Result<Message, InteropError> {
    InteropError::check_encoding(&message)?;
    let data = body::bytes(message.body()).ok_or(InteropError::NotBytes)?;
    // Only the size could exceed a limit, and the body is in memory.
    let limits = Limits::default().bytes(Limits::MAX_BYTES);
    let contents = DataContractBinary::contents(&data, &limits).map_err(InteropError::Wrapped)?;
    let contents = match contents {
        Cow::Borrowed(inside) => data.slice_ref(inside),
        Cow::Owned(inside) => inside.into(),
    };
    let mut message = message.with_body(contents);
    message.properties_mut().application_properties_mut().remove(NServiceBusLayer::ENCODING);
    Ok(message)
}

/// Whether a subject is the name of the first type up to its first comma, where NServiceBus cuts it for RabbitMQ, although
/// the name goes on behind it.
fn is_cut(subject: Option<&str>, types: &str) -> bool {
    let Some((start, _)) = types.split_once(',') else { return false };
    subject == Some(start) && first_name(types).is_some_and(|name| name.len() > start.len())
}

/// When the message expires. Times that cannot be read are none.
fn expiration(properties: &ApplicationProperties) -> Option<Timestamp> {
    let text = |name| properties.get(name).and_then(PropertyValue::as_str);
    let after = span(text(NServiceBusLayer::TIME_TO_BE_RECEIVED)?)?;
    let sent = instant(text(NServiceBusLayer::TIME_SENT)?)?;
    let was_moved = MOVED.into_iter().any(|name| properties.get(name).is_some());
    (!was_moved).then(|| sent.saturating_add(after))
}

/// The full name of the first type: up to the comma before its assembly. Those of its arguments are in brackets.
fn first_name(types: &str) -> Option<&str> {
    let mut depth = 0_usize;
    let end = types.find(|c| {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && matches!(c, ',' | ';')
    });
    Some(types[..end.unwrap_or(types.len())].trim()).filter(|name| !name.is_empty())
}
