use consign_codecs::ContentType;
use tower_layer::Layer;

use super::{
    InteropError,
    deadline::Deadline,
    envelope::{self, Envelope},
    fill::{Found, MARK, carry_trace, text, without_mark},
    fit::fit,
    instant::instant,
};
use crate::{
    Message, body,
    message::{ApplicationProperties, Field, InvalidArgument, Problem, limits},
    middleware::{Reader, Reading},
    time::{Clock, Timestamp},
};

const ENVELOPE: &str = "application/vnd.masstransit+json";
/// What a name of a type begins with, unless it was given another.
const URN: &str = "urn:message:";

/// What MassTransit adds to a message that it moves to an error queue, where nothing expires.
const MOVED: &str = "MT-Reason";

/// A layer that reads messages of MassTransit; see the [module](super).
#[derive(Clone, Debug, Default)]
pub struct MassTransitLayer {
    deadline: Deadline,
}

impl MassTransitLayer {
    /// The application property that has the names of all types, with `;` between them.
    pub const MESSAGE_TYPE: &'static str = "MT-MessageType";
    /// The application property of `requestId`.
    pub const REQUEST_ID: &'static str = "RequestId";
    /// The application property of `correlationId`.
    pub const CORRELATION_ID: &'static str = "CorrelationId";
    /// The application property of `messageId`.
    pub const MESSAGE_ID: &'static str = "MessageId";

    /// The application property of `destinationAddress`.
    pub const DESTINATION_ADDRESS: &'static str = "MT-Destination-Address";
    /// The application property of `expirationTime`.
    pub const EXPIRATION_TIME: &'static str = "MT-Expiration-Time";
    /// The application property of `sentTime`.
    pub const SENT_TIME: &'static str = "MT-Sent-Time";

    /// Reads envelopes, and messages with transport headers. Messages expire by the [`SystemClock`](crate::time::SystemClock).
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

impl<S> Layer<S> for MassTransitLayer {
    type Service = MassTransit<S>;

    fn layer(&self, inner: S) -> MassTransit<S> {
        Reading::new(inner, self.clone())
    }
}

/// Reads what MassTransit has sent; see the [module](super).
pub(super) type MassTransit<S> = Reading<S, MassTransitLayer>;

impl Reader for MassTransitLayer {
    type Error = InteropError;

    fn read(&self, message: Message) -> Result<Message, InteropError> {
        if message
            .content_type()
            .is_some_and(|content_type| ContentType::parse(content_type).essence() == Some(ENVELOPE))
        {
            return self.opened(message);
        }
        if message.application_properties().get(Self::MESSAGE_TYPE).is_none() {
            return Ok(message);
        }
        let found = found(message.application_properties())?;
        let mut message = message;
        found.fill(message.properties_mut())?;
        carry_trace(message.properties_mut());
        self.in_time(without_mark(message))
    }
}

impl MassTransitLayer {
    /// What is in an envelope goes among the properties, and is read from there.
    fn opened(&self, message: Message) -> Result<Message, InteropError> {
        InteropError::check_encoding(&message)?;
        let data = body::bytes(message.body()).ok_or(InteropError::NotBytes)?;
        let body = if data.starts_with(MARK) { data.slice(MARK.len()..) } else { data };
        let envelope: Envelope<'_> = serde_json::from_slice(&body).map_err(|error| InteropError::Envelope {
            detail: envelope::detail(&error),
            line: error.line(),
            column: error.column(),
        })?;
        if envelope.is_over {
            let limit = limits::PROPERTIES;
            return Err(InvalidArgument::new(Field::Properties, Problem::TooMany { limit }).into());
        }
        let inner = body.slice_ref(envelope.message.get().as_bytes());
        let mut message = message;
        let properties = message.properties_mut();
        let could_be_sent = properties.check().is_ok();
        let mut added = Vec::new();
        for (name, value) in envelope.properties {
            if properties.application_properties().get(&name).is_none() {
                properties.application_properties_mut().insert(name.clone(), value);
                added.push(name);
            }
        }
        properties.set_content_type("application/json");
        found(properties.application_properties())?.fill(properties)?;
        carry_trace(properties);
        fit(properties, &added);
        if could_be_sent {
            properties.check()?;
        }
        self.in_time(message.with_body(inner))
    }

    /// Checks when the message expires by its properties.
    fn in_time(&self, message: Message) -> Result<Message, InteropError> {
        match expiration(message.application_properties()) {
            Some(at) => self.deadline.check(message, at),
            None => Ok(message),
        }
    }
}

/// When the message expires. A time that cannot be read is none.
fn expiration(properties: &ApplicationProperties) -> Option<Timestamp> {
    let at = properties.get(MassTransitLayer::EXPIRATION_TIME).filter(|_| properties.get(MOVED).is_none())?;
    instant(at.as_str()?)
}

fn found(properties: &ApplicationProperties) -> Result<Found, InteropError> {
    let types = text(properties, MassTransitLayer::MESSAGE_TYPE)?.ok_or(InteropError::NoType)?;
    let first = types.split_once(';').map_or(&*types, |(first, _)| first).trim();
    let subject = first.strip_prefix(URN).unwrap_or(first);
    if subject.is_empty() {
        return Err(InteropError::NoType);
    }
    let request = text(properties, MassTransitLayer::REQUEST_ID)?;
    let correlation = text(properties, MassTransitLayer::CORRELATION_ID)?;
    Ok(Found {
        message_id: text(properties, MassTransitLayer::MESSAGE_ID)?,
        correlation_id: request.or(correlation),
        content_type: None,
        subject: Some(subject.into()),
        to: text(properties, MassTransitLayer::DESTINATION_ADDRESS)?,
    })
}
