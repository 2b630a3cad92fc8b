use bytes::Bytes;
use consign_core::{
    Message,
    message::{ApplicationProperties, PropertyValue},
};
use serde_json::{Map, Number, Value};

use super::{MessageError, MessageErrorKind, broker_properties, user_property};

/// Reads the body of a request that sends a batch: a JSON array of objects with the members `Body`, a string, `BrokerProperties` and
/// `UserProperties`, all of them optional.
///
/// # Errors
/// [`Batch`](MessageErrorKind::Batch), also if there are more than `max` messages, and those of [`from_request`](super::from_request).
pub fn from_batch(body: &[u8], max: usize) -> Result<Vec<Message>, MessageError> {
    let items: Vec<Value> = serde_json::from_slice(body).map_err(|_| batch("it is not a JSON array"))?;
    if items.len() > max {
        return Err(batch("it has too many messages"));
    }
    items.into_iter().map(item).collect()
}

fn batch(text: &str) -> MessageError {
    MessageError::new(MessageErrorKind::Batch, text)
}

fn item(item: Value) -> Result<Message, MessageError> {
    let Value::Object(mut item) = item else { return Err(batch("an element is not an object")) };
    let mut object = |name| match item.remove(name) {
        None | Some(Value::Null) => Ok(Map::new()),
        Some(Value::Object(object)) => Ok(object),
        Some(_) => Err(batch("a member is not an object")),
    };
    let mut properties = broker_properties::read_sent(&object("BrokerProperties")?)?;
    *properties.application_properties_mut() = application_properties(object("UserProperties")?)?;
    let body = match item.remove("Body") {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text,
        Some(_) => return Err(batch("the member Body is not a string")),
    };
    if !item.is_empty() {
        return Err(batch("an element has a member that is not Body, BrokerProperties or UserProperties"));
    }
    let message = Message::from_parts(properties, body.into());
    message.check()?;
    Ok(message)
}

fn application_properties(values: Map<String, Value>) -> Result<ApplicationProperties, MessageError> {
    let property = |(key, value): (String, Value)| {
        let read = match value {
            Value::Null => PropertyValue::Null,
            Value::Bool(value) => value.into(),
            Value::Number(number) => match (number.as_i64(), number.as_f64()) {
                (Some(integer), _) => integer.into(),
                (None, Some(float)) => float.into(),
                (None, None) => return Err(MessageError::new(MessageErrorKind::ApplicationProperty, &key)),
            },
            Value::String(text) => text.into(),
            Value::Array(_) | Value::Object(_) => {
                return Err(MessageError::new(MessageErrorKind::ApplicationProperty, &key));
            }
        };
        Ok((key, read))
    };
    values.into_iter().map(property).collect::<Result<Vec<_>, _>>().map(ApplicationProperties::from_iter)
}

/// Writes the body of a request that sends a batch. Values that JSON lacks become strings.
///
/// # Errors
/// [`Body`](MessageErrorKind::Body) for a body that is not text in UTF-8.
pub fn to_batch<'m>(messages: impl IntoIterator<Item = &'m Message>) -> Result<Bytes, MessageError> {
    let item = |message: &Message| {
        let text = message.payload().and_then(|body| std::str::from_utf8(body).ok());
        let text = text.ok_or_else(|| MessageError::new(MessageErrorKind::Body, ""))?;
        let mut broker = broker_properties::write_sent(message.properties());
        if let Some(content_type) = message.content_type() {
            broker.insert("ContentType".to_owned(), content_type.into());
        }
        let user = message.application_properties().iter();
        let user: Map<_, _> = user.map(|(key, value)| (key.to_owned(), json(value))).collect();
        let members = [("Body", text.into()), ("BrokerProperties", broker.into()), ("UserProperties", user.into())];
        Ok(members.into_iter().map(|(name, value): (&str, Value)| (name.to_owned(), value)).collect::<Map<_, _>>())
    };
    let items = messages.into_iter().map(|message| item(message).map(Value::Object));
    let items = items.collect::<Result<Vec<_>, MessageError>>()?;
    Ok(Value::Array(items).to_string().into())
}

fn json(value: &PropertyValue) -> Value {
    match value {
        PropertyValue::Null => Value::Null,
        PropertyValue::Bool(value) => (*value).into(),
        PropertyValue::I8(_)
        | PropertyValue::I16(_)
        | PropertyValue::I32(_)
        | PropertyValue::I64(_)
        | PropertyValue::U8(_)
        | PropertyValue::U16(_)
        | PropertyValue::U32(_)
        | PropertyValue::U64(_) => integer(user_property::text(value)),
        PropertyValue::F32(value) => number((*value).into(), || user_property::text(&(*value).into())),
        PropertyValue::F64(value) => number(*value, || user_property::text(&(*value).into())),
        other => user_property::text(other).into(),
    }
}

fn integer(text: String) -> Value {
    text.parse().map_or_else(|_| text.into(), Value::Number)
}

fn number(value: f64, text: impl FnOnce() -> String) -> Value {
    Number::from_f64(value).map_or_else(|| text().into(), Value::Number)
}
