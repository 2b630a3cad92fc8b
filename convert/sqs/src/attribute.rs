//! Application properties as message attributes.

use aws_sdk_sqs::{primitives::Blob, types::MessageAttributeValue};
use bytes::Bytes;
use consign_core::{message::PropertyValue, wire::text};

use crate::names;

/// Before the short name of the type of a value, in the label of a data type.
const LABEL: &str = "sb-";
/// The most digits of a number of SQS. Longer texts of numbers are strings.
const DIGITS: usize = 38;

/// Returns an attribute with a text, or `None` for a text that SQS does not take.
pub(crate) fn string(value: &str) -> Option<MessageAttributeValue> {
    names::is_text(value).then(|| typed("String", value))?
}

fn typed(data_type: &str, value: &str) -> Option<MessageAttributeValue> {
    MessageAttributeValue::builder().data_type(data_type).string_value(value).build().ok()
}

/// Returns the attribute of a property, or `None` for a value that no attribute can have: an empty one, for example.
pub(crate) fn write(value: &PropertyValue) -> Option<MessageAttributeValue> {
    match value {
        PropertyValue::String(text) => return string(text),
        PropertyValue::Bytes(bytes) if bytes.is_empty() => return None,
        PropertyValue::Bytes(bytes) => {
            let blob = Blob::new(&**bytes);
            return MessageAttributeValue::builder().data_type("Binary").binary_value(blob).build().ok();
        }
        _ => {}
    }
    let text = text::write(value);
    let (kind, text) = text.split_once(':')?;
    let is_number = match value {
        PropertyValue::F32(number) => number.is_finite(),
        PropertyValue::F64(number) => number.is_finite(),
        PropertyValue::U8(_)
        | PropertyValue::U16(_)
        | PropertyValue::U32(_)
        | PropertyValue::U64(_)
        | PropertyValue::I8(_)
        | PropertyValue::I16(_)
        | PropertyValue::I32(_)
        | PropertyValue::I64(_)
        | PropertyValue::DateTime(_)
        | PropertyValue::DateTimeOffset(_)
        | PropertyValue::TimeSpan(_) => true,
        _ => false,
    };
    let base = if is_number && text.len() <= DIGITS { "Number" } else { "String" };
    names::is_text(text).then(|| typed(&format!("{base}.{LABEL}{kind}"), text))?
}

/// Returns the property of an attribute.
///
/// # Errors
///
/// What was expected of an attribute with a label of this crate.
pub(crate) fn read(attribute: &MessageAttributeValue) -> Result<PropertyValue, &'static str> {
    let data_type = attribute.data_type();
    let (base, label) = data_type.split_once('.').unwrap_or((data_type, ""));
    if let Some(blob) = attribute.binary_value().filter(|_| base == "Binary" || attribute.string_value().is_none()) {
        return Ok(Bytes::copy_from_slice(blob.as_ref()).into());
    }
    let value = attribute.string_value().unwrap_or_default();
    if let Some(kind) = label.strip_prefix(LABEL) {
        return text::read(&format!("{kind}:{value}")).map_err(|_| "a value of the type that its data type names");
    }
    Ok(if base == "Number" { number(value) } else { value.into() })
}

/// A number without a label: the smallest type that loses no digit, or its text.
fn number(text: &str) -> PropertyValue {
    if let Ok(number) = text.parse::<i64>() {
        return number.into();
    }
    if let Ok(number) = text.parse::<u64>() {
        return number.into();
    }
    match text.parse::<f64>() {
        Ok(number) if number.to_string() == text => number.into(),
        _ => text.into(),
    }
}
