use std::{borrow::Cow, collections::BTreeMap};

use consign_codecs::ContentType;
use serde::Deserialize;
use serde_json::value::RawValue;
use tower_layer::Layer;

use super::{
    InteropError,
    fill::{Found, text},
};
use crate::{
    Message,
    message::{ApplicationProperties, Body, PropertyValue},
    middleware::{Reader, Reading},
};

const ENVELOPE: &str = "application/vnd.masstransit+json";
/// What a name of a type begins with, unless it was given another.
const URN: &str = "urn:message:";

/// Makes [`MassTransit`] services.
#[derive(Clone, Copy, Debug, Default)]
pub struct MassTransitLayer(());

impl MassTransitLayer {
    /// The application property that has the names of all types, with `;` between them.
    pub const MESSAGE_TYPE: &'static str = "MT-MessageType";
    /// The application property of `requestId`.
    pub const REQUEST_ID: &'static str = "RequestId";
    /// The application property of `correlationId`.
    pub const CORRELATION_ID: &'static str = "CorrelationId";
    /// The application property of `messageId`.
    pub const MESSAGE_ID: &'static str = "MessageId";

    /// Reads envelopes, and messages with transport headers.
    #[must_use]
    pub const fn new() -> Self {
        Self(())
    }
}

impl<S> Layer<S> for MassTransitLayer {
    type Service = MassTransit<S>;

    fn layer(&self, inner: S) -> MassTransit<S> {
        Reading::new(inner, *self)
    }
}

/// Reads what MassTransit has sent; see the [module](super).
pub type MassTransit<S> = Reading<S, MassTransitLayer>;

/// The members of an envelope that are read. Others are passed over; one of these that stands twice is an error.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope<'b> {
    message_id: Option<Box<str>>,
    request_id: Option<Box<str>>,
    correlation_id: Option<Box<str>>,
    conversation_id: Option<Box<str>>,
    initiator_id: Option<Box<str>>,
    source_address: Option<Box<str>>,
    response_address: Option<Box<str>>,
    fault_address: Option<Box<str>>,
    #[serde(borrow)]
    message_type: Vec<Cow<'b, str>>,
    #[serde(borrow)]
    message: &'b RawValue,
    #[serde(borrow)]
    headers: Option<BTreeMap<String, &'b RawValue>>,
}

impl Reader for MassTransitLayer {
    type Error = InteropError;

    fn read(&self, message: Message) -> Result<Message, InteropError> {
        if message
            .content_type()
            .is_some_and(|content_type| ContentType::parse(content_type).essence() == Some(ENVELOPE))
        {
            return opened(message);
        }
        if message.application().get(Self::MESSAGE_TYPE).is_none() {
            return Ok(message);
        }
        let found = found(message.application())?;
        let mut message = message;
        found.fill(message.properties_mut())?;
        Ok(message)
    }
}

/// What is in an envelope goes among the properties, and is read from there.
fn opened(message: Message) -> Result<Message, InteropError> {
    let Body::Data(data) = message.body() else { return Err(InteropError::NotBytes) };
    let body = data.joined().clone();
    let envelope: Envelope<'_> = serde_json::from_slice(&body)
        .map_err(|error| InteropError::Envelope { line: error.line(), column: error.column() })?;
    let inner = body.slice_ref(envelope.message.get().as_bytes());
    let mut message = message;
    keep(envelope, message.properties_mut().application_mut());
    let found = found(message.application())?;
    message.properties_mut().set_content_type("application/json");
    found.fill(message.properties_mut())?;
    Ok(message.with_body(inner))
}

/// Adds what an envelope has to the application properties, and overwrites none.
fn keep(envelope: Envelope<'_>, properties: &mut ApplicationProperties) {
    let mut keep = |name: Box<str>, value: PropertyValue| {
        if properties.get(&name).is_none() {
            properties.insert(name, value);
        }
    };
    let members = [
        (MassTransitLayer::MESSAGE_ID, envelope.message_id),
        (MassTransitLayer::REQUEST_ID, envelope.request_id),
        (MassTransitLayer::CORRELATION_ID, envelope.correlation_id),
        (MassTransitLayer::MESSAGE_TYPE, Some(envelope.message_type.join(";").into())),
        ("ConversationId", envelope.conversation_id),
        ("MT-InitiatorId", envelope.initiator_id),
        ("MT-Source-Address", envelope.source_address),
        ("MT-Response-Address", envelope.response_address),
        ("MT-Fault-Address", envelope.fault_address),
    ];
    for (name, value) in members {
        if let Some(value) = value {
            keep(name.into(), PropertyValue::String(value));
        }
    }
    for (name, value) in envelope.headers.unwrap_or_default() {
        keep(name.into(), property(value));
    }
}

/// A header as a property: a scalar as it is, anything else as JSON.
fn property(value: &RawValue) -> PropertyValue {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Scalar {
        Null(()),
        Bool(bool),
        Integer(i64),
        Float(f64),
        String(Box<str>),
    }

    match serde_json::from_str(value.get()) {
        Ok(Scalar::Null(())) => PropertyValue::Null,
        Ok(Scalar::Bool(value)) => PropertyValue::Bool(value),
        Ok(Scalar::Integer(value)) => PropertyValue::I64(value),
        Ok(Scalar::Float(value)) => PropertyValue::F64(value),
        Ok(Scalar::String(value)) => PropertyValue::String(value),
        Err(_) => PropertyValue::String(value.get().into()),
    }
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
    })
}
