use bytes::Bytes;
use consign_core::{
    Message,
    message::{LockToken, MessageBody},
};
use http::HeaderMap;

use super::{BROKER_PROPERTIES, MessageError, broker_properties, request};

/// Writes the response to a receive: the headers, and the bytes of the body. A body that is not data sections has none.
///
/// An application property that a header cannot represent is left out, unless `exact` adds the header
/// [`EXACT_PROPERTIES`](super::EXACT_PROPERTIES).
#[must_use]
pub fn to_response(message: &Message, token: Option<LockToken>, exact: bool) -> (HeaderMap, Option<Bytes>) {
    let mut headers = HeaderMap::new();
    let broker = broker_properties::write_received(message, token);
    headers.insert(BROKER_PROPERTIES, broker_properties::header(broker));
    request::write_properties(&mut headers, message, exact);
    let body = match message.body() {
        MessageBody::Data(data) => Some(data.joined().clone()),
        MessageBody::Value(_) | MessageBody::Sequence(_) => None,
    };
    (headers, body)
}

/// Reads the response to a receive. The message has its [`Received`](consign_core::message::Received).
///
/// # Errors
/// [`Header`](super::MessageErrorKind::Header), [`BrokerProperty`](super::MessageErrorKind::BrokerProperty) and
/// [`InvalidArgument`](super::MessageErrorKind::InvalidArgument).
pub fn from_response(headers: &HeaderMap, body: Bytes) -> Result<Message, MessageError> {
    let broker = request::broker(headers)?;
    let mut message = Message::from_parts(request::properties(headers, &broker)?, body.into());
    if let Some(source) = broker_properties::dead_letter_source(&broker)? {
        message = message.with_dead_letter_source(source);
    }
    if let Some(received) = broker_properties::read_received(&broker)? {
        message = message.with_received(received);
    }
    Ok(message)
}

/// Reads the lock token of a response to a receive in peek-lock mode.
///
/// # Errors
/// [`Header`](super::MessageErrorKind::Header), and [`BrokerProperty`](super::MessageErrorKind::BrokerProperty) if it is not a UUID.
pub fn lock_token(headers: &HeaderMap) -> Result<Option<LockToken>, MessageError> {
    broker_properties::lock_token(&request::broker(headers)?)
}
