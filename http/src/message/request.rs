use bytes::Bytes;
use consign_core::{
    Message,
    message::{ApplicationProperties, MessageBody, Properties},
};
use http::{HeaderMap, HeaderName, HeaderValue, header::CONTENT_TYPE};
use serde_json::{Map, Value};

use super::{
    BROKER_PROPERTIES, EXACT_PROPERTIES, MessageError, MessageErrorKind, broker_properties, exact, names, user_property,
};

/// Reads the request that sends a message.
///
/// # Errors
/// [`Header`](MessageErrorKind::Header), [`BrokerProperty`](MessageErrorKind::BrokerProperty), and
/// [`InvalidArgument`](MessageErrorKind::InvalidArgument) for a message that no broker accepts.
pub fn from_request(headers: &HeaderMap, body: Bytes) -> Result<Message, MessageError> {
    let message = Message::from_parts(properties(headers, &broker(headers)?)?, body.into());
    message.check()?;
    Ok(message)
}

/// Writes the request that sends a message. With `exact` the names, types and values of application properties are kept by the header
/// [`EXACT_PROPERTIES`].
///
/// # Errors
/// [`Body`](MessageErrorKind::Body) for a body that is not data sections, and without `exact`
/// [`ApplicationProperty`](MessageErrorKind::ApplicationProperty) for one that a header cannot represent.
pub fn to_request(message: &Message, exact: bool) -> Result<(HeaderMap, Bytes), MessageError> {
    let MessageBody::Data(data) = message.body() else { return Err(MessageError::new(MessageErrorKind::Body, "")) };
    let mut headers = HeaderMap::new();
    let broker = broker_properties::write_sent(message.properties());
    if !broker.is_empty() {
        headers.insert(BROKER_PROPERTIES, broker_properties::header(broker));
    }
    if let Some(key) = write_properties(&mut headers, message, exact)
        && !exact
    {
        return Err(MessageError::new(MessageErrorKind::ApplicationProperty, key));
    }
    Ok((headers, data.joined().clone()))
}

/// The one header with a name.
pub(super) fn one<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h HeaderValue>, MessageError> {
    let mut all = headers.get_all(name).iter();
    let first = all.next();
    if all.next().is_some() { Err(MessageError::header(name.as_str())) } else { Ok(first) }
}

/// Reads `BrokerProperties`.
pub(super) fn broker(headers: &HeaderMap) -> Result<Map<String, Value>, MessageError> {
    one(headers, &BROKER_PROPERTIES)?.map(broker_properties::parse).transpose().map(Option::unwrap_or_default)
}

/// Reads all that a sender sets.
pub(super) fn properties(headers: &HeaderMap, broker: &Map<String, Value>) -> Result<Properties, MessageError> {
    let mut properties = broker_properties::read_sent(broker)?;
    if let Some(content_type) = one(headers, &CONTENT_TYPE)? {
        let text = content_type.to_str().map_err(|_| MessageError::header("Content-Type"))?;
        if !text.is_empty() {
            properties.set_content_type(text.to_owned());
        }
    }
    *properties.application_properties_mut() = match one(headers, &EXACT_PROPERTIES)? {
        Some(value) => exact::read(value)?,
        None => application_properties(headers)?,
    };
    Ok(properties)
}

fn application_properties(headers: &HeaderMap) -> Result<ApplicationProperties, MessageError> {
    let mut properties = ApplicationProperties::new();
    for (name, value) in headers.iter().filter(|(name, _)| names::is_property(name)) {
        let text = std::str::from_utf8(value.as_bytes()).map_err(|_| MessageError::header(name.as_str()))?;
        if properties.insert(names::key(name), user_property::read(text)).is_some() {
            return Err(MessageError::header(name.as_str()));
        }
    }
    Ok(properties)
}

/// Writes the ContentType, if the header can carry it, and the application properties. Returns the key of one that no header represents.
pub(super) fn write_properties<'m>(headers: &mut HeaderMap, message: &'m Message, exact: bool) -> Option<&'m str> {
    let content_type = message.content_type().filter(|text| broker_properties::is_in_header(text));
    if let Some(value) = content_type.and_then(|text| HeaderValue::from_str(text).ok()) {
        headers.insert(CONTENT_TYPE, value);
    }
    let properties = message.application_properties();
    if exact && let Some(value) = exact::write(properties) {
        headers.insert(EXACT_PROPERTIES, value);
    }
    let mut missing = None;
    for (key, value) in properties.iter() {
        let text = user_property::write(value);
        let value = text.and_then(|text| HeaderValue::from_bytes(text.as_bytes()).ok());
        match (names::header(key), value) {
            (Some(name), Some(value)) if !headers.contains_key(&name) => {
                headers.insert(name, value);
            }
            _ => missing = missing.or(Some(key)),
        }
    }
    missing
}
