use tower_layer::Layer;

use super::{
    InteropError,
    fill::{Found, text},
};
use crate::{
    Message,
    middleware::{Reader, Reading},
};

/// Makes [`NServiceBus`] services.
#[derive(Clone, Copy, Debug, Default)]
pub struct NServiceBusLayer(());

impl NServiceBusLayer {
    /// The application property that has the names of all types, with `;` between them.
    pub const ENCLOSED_MESSAGE_TYPES: &'static str = "NServiceBus.EnclosedMessageTypes";
    /// The application property of the MessageId.
    pub const MESSAGE_ID: &'static str = "NServiceBus.MessageId";
    /// The application property of the CorrelationId.
    pub const CORRELATION_ID: &'static str = "NServiceBus.CorrelationId";
    /// The application property of the ContentType.
    pub const CONTENT_TYPE: &'static str = "NServiceBus.ContentType";
    /// The application property that says what is around the body.
    pub const ENCODING: &'static str = "NServiceBus.Transport.Encoding";

    /// Reads the headers of messages.
    #[must_use]
    pub const fn new() -> Self {
        Self(())
    }
}

impl<S> Layer<S> for NServiceBusLayer {
    type Service = NServiceBus<S>;

    fn layer(&self, inner: S) -> NServiceBus<S> {
        Reading::new(inner, *self)
    }
}

/// Reads what NServiceBus has sent; see the [module](super).
pub type NServiceBus<S> = Reading<S, NServiceBusLayer>;

impl Reader for NServiceBusLayer {
    type Error = InteropError;

    fn read(&self, message: Message) -> Result<Message, InteropError> {
        let properties = message.application();
        if properties.is_empty() {
            return Ok(message);
        }
        if text(properties, Self::ENCODING)?.is_some_and(|encoding| &*encoding == "wcf/byte-array") {
            return Err(InteropError::Wrapped);
        }
        let types = text(properties, Self::ENCLOSED_MESSAGE_TYPES)?;
        let found = Found {
            message_id: text(properties, Self::MESSAGE_ID)?,
            correlation_id: text(properties, Self::CORRELATION_ID)?,
            content_type: text(properties, Self::CONTENT_TYPE)?,
            subject: types.map(|types| first_name(&types).map(Into::into).ok_or(InteropError::NoType)).transpose()?,
        };
        if found == Found::default() {
            return Ok(message);
        }
        let mut message = message;
        found.fill(message.properties_mut())?;
        Ok(message)
    }
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
