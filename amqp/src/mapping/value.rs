use bytes::Bytes;
use consign_core::{
    message::{PropertyValue, Value as CoreValue},
    time::Timestamp as Instant,
};

use super::{MappingError, MappingErrorKind, error::Place};
use crate::{
    codec::{self, Limits},
    message::Section,
    value::{
        Array, Binary, Decimal32, Decimal64, Decimal128, Described, List, Map, Str, Symbol, Timestamp, Uuid, Value,
        ValueType,
    },
};

/// Descriptors of Service Bus.
const DATE_TIME_OFFSET: &str = "com.microsoft:datetime-offset";
const TIME_SPAN: &str = "com.microsoft:timespan";
const URI: &str = "com.microsoft:uri";

/// Descriptors of values for which a message has no type. They are never sent to an AMQP 1.0 peer, and not accepted from one: it
/// would get back another value, or one that cannot be sent.
const DECIMAL_32: &str = "consign:decimal32";
const DECIMAL_64: &str = "consign:decimal64";
const EMPTY_ARRAY: &str = "consign:empty-array";

/// Converts the value of an application property. A symbol becomes text.
///
/// # Errors
/// [`MappingErrorKind::UnsupportedType`], with the name of the property: a list, a map, an array, a decimal32, a decimal64, or a
/// described value other than the three of Service Bus.
pub fn property_from_amqp(name: &str, value: Value) -> Result<PropertyValue, MappingError> {
    let place = Place::new(Section::ApplicationProperties, name);
    let found = value.value_type();
    let converted = if is_property(&value) { Some(from_amqp(value, place, 1)?) } else { None };
    match converted {
        Some(CoreValue::Simple(value)) => Ok(value),
        Some(CoreValue::Symbol(text)) => Ok(PropertyValue::String(text)),
        _ => Err(place.error(MappingErrorKind::UnsupportedType).expected("simple value").found(found.name())),
    }
}

/// Whether [`property_from_amqp`] accepts the value.
pub(super) fn is_property(value: &Value) -> bool {
    match value.value_type() {
        ValueType::List | ValueType::Map | ValueType::Array | ValueType::Decimal32 | ValueType::Decimal64 => false,
        ValueType::Described => special(value).is_some(),
        _ => true,
    }
}

/// Converts the value of an application property.
#[must_use]
pub fn property_to_amqp(value: &PropertyValue) -> Value {
    let described =
        |name, value| Value::Described(Box::new(Described { descriptor: Symbol::from_static(name).into(), value }));
    match value {
        PropertyValue::Null => Value::Null,
        PropertyValue::Bool(value) => (*value).into(),
        PropertyValue::U8(value) => (*value).into(),
        PropertyValue::U16(value) => (*value).into(),
        PropertyValue::U32(value) => (*value).into(),
        PropertyValue::U64(value) => (*value).into(),
        PropertyValue::I8(value) => (*value).into(),
        PropertyValue::I16(value) => (*value).into(),
        PropertyValue::I32(value) => (*value).into(),
        PropertyValue::I64(value) => (*value).into(),
        PropertyValue::F32(value) => (*value).into(),
        PropertyValue::F64(value) => (*value).into(),
        PropertyValue::Char(value) => (*value).into(),
        PropertyValue::String(text) => Str::from(&**text).into(),
        PropertyValue::Decimal(bytes) => Decimal128(*bytes).into(),
        PropertyValue::Uuid(bytes) => Uuid(*bytes).into(),
        PropertyValue::DateTime(at) => Timestamp(at.as_millis()).into(),
        PropertyValue::DateTimeOffset(ticks) => described(DATE_TIME_OFFSET, (*ticks).into()),
        PropertyValue::TimeSpan(ticks) => described(TIME_SPAN, (*ticks).into()),
        PropertyValue::Uri(text) => described(URI, Str::from(&**text).into()),
        PropertyValue::Bytes(bytes) => Binary(bytes.clone()).into(),
    }
}

/// Converts a value of a body, an annotation or a footer.
///
/// # Errors
/// [`MappingErrorKind::TooDeep`] over 64 levels, [`MappingErrorKind::Reserved`] for `consign:decimal32`, `consign:decimal64` and `consign:empty-array`.
pub fn value_from_amqp(value: Value) -> Result<CoreValue, MappingError> {
    from_amqp(value, Place::BODY, Limits::MAX_DEPTH)
}

/// Converts a value of a body, an annotation or a footer.
///
/// # Errors
/// [`MappingErrorKind::TooDeep`] over 64 levels, [`MappingErrorKind::MixedArray`] if the elements of an array have several types,
/// [`MappingErrorKind::NotAscii`] if a symbol is not ASCII.
pub fn value_to_amqp(value: &CoreValue) -> Result<Value, MappingError> {
    to_amqp(value, Place::BODY, Limits::MAX_DEPTH)
}

fn deeper(levels: u8, place: Place<'_>) -> Result<u8, MappingError> {
    levels.checked_sub(1).ok_or_else(|| place.error(MappingErrorKind::TooDeep))
}

fn symbol(name: &str) -> CoreValue {
    CoreValue::Symbol(name.into())
}

fn described(name: &str, value: CoreValue) -> CoreValue {
    CoreValue::Described(Box::new((symbol(name), value)))
}

/// One of the three described values that are simple.
fn special(value: &Value) -> Option<PropertyValue> {
    let Value::Described(described) = value else { return None };
    let Value::Symbol(name) = &described.descriptor else { return None };
    match (name.as_str(), &described.value) {
        (DATE_TIME_OFFSET, Value::Long(ticks)) => Some(PropertyValue::DateTimeOffset(*ticks)),
        (TIME_SPAN, Value::Long(ticks)) => Some(PropertyValue::TimeSpan(*ticks)),
        (URI, Value::String(text)) => Some(PropertyValue::Uri(text.as_str().into())),
        _ => None,
    }
}

pub(super) fn from_amqp(value: Value, place: Place<'_>, levels: u8) -> Result<CoreValue, MappingError> {
    if let Some(special) = special(&value) {
        return Ok(CoreValue::Simple(special));
    }
    Ok(CoreValue::Simple(match value {
        Value::Null => PropertyValue::Null,
        Value::Boolean(value) => value.into(),
        Value::Ubyte(value) => value.into(),
        Value::Ushort(value) => value.into(),
        Value::Uint(value) => value.into(),
        Value::Ulong(value) => value.into(),
        Value::Byte(value) => value.into(),
        Value::Short(value) => value.into(),
        Value::Int(value) => value.into(),
        Value::Long(value) => value.into(),
        Value::Float(value) => value.into(),
        Value::Double(value) => value.into(),
        Value::Decimal128(Decimal128(bytes)) => PropertyValue::Decimal(bytes),
        Value::Char(value) => value.into(),
        Value::Timestamp(Timestamp(millis)) => PropertyValue::DateTime(Instant::from_millis(millis)),
        Value::Uuid(Uuid(bytes)) => PropertyValue::Uuid(bytes),
        Value::Binary(Binary(bytes)) => PropertyValue::Bytes(bytes),
        Value::String(text) => PropertyValue::String(text.as_str().into()),
        Value::Decimal32(Decimal32(bytes)) => return Ok(described(DECIMAL_32, Bytes::copy_from_slice(&bytes).into())),
        Value::Decimal64(Decimal64(bytes)) => return Ok(described(DECIMAL_64, Bytes::copy_from_slice(&bytes).into())),
        Value::Symbol(text) => return Ok(CoreValue::Symbol(text.as_str().into())),
        Value::List(List(values)) => return Ok(CoreValue::List(all_from_amqp(values, place, deeper(levels, place)?)?)),
        Value::Map(Map(pairs)) => {
            let levels = deeper(levels, place)?;
            let pairs = pairs
                .into_iter()
                .map(|(key, value)| Ok((from_amqp(key, place, levels)?, from_amqp(value, place, levels)?)));
            return Ok(CoreValue::Map(pairs.collect::<Result<_, _>>()?));
        }
        Value::Array(array) => return array_from_amqp(array, place, deeper(levels, place)?),
        Value::Described(pair) => {
            let levels = deeper(levels, place)?;
            let Described { descriptor, value } = *pair;
            if matches!(&descriptor, Value::Symbol(name) if [DECIMAL_32, DECIMAL_64, EMPTY_ARRAY].contains(&name.as_str()))
            {
                return Err(place.error(MappingErrorKind::Reserved));
            }
            let pair = (from_amqp(descriptor, place, levels)?, from_amqp(value, place, levels)?);
            return Ok(CoreValue::Described(Box::new(pair)));
        }
    }))
}

fn all_from_amqp(values: Vec<Value>, place: Place<'_>, levels: u8) -> Result<Vec<CoreValue>, MappingError> {
    values.into_iter().map(|value| from_amqp(value, place, levels)).collect()
}

/// The elements of a described array are described values.
fn array_from_amqp(array: Array, place: Place<'_>, levels: u8) -> Result<CoreValue, MappingError> {
    let (element, descriptors) = (array.element_type(), array.descriptors().to_vec());
    let values = array.into_values();
    if values.is_empty() && (element != ValueType::Null || !descriptors.is_empty()) {
        let mut parts = vec![symbol(element.name())];
        parts.extend(all_from_amqp(descriptors, place, deeper(levels, place)?)?);
        return Ok(described(EMPTY_ARRAY, CoreValue::List(parts)));
    }
    let describe = |value| {
        let with =
            |value, descriptor: &Value| Value::Described(Box::new(Described { descriptor: descriptor.clone(), value }));
        descriptors.iter().rev().fold(value, with)
    };
    all_from_amqp(values.into_iter().map(describe).collect(), place, levels).map(CoreValue::Array)
}

pub(super) fn to_amqp(value: &CoreValue, place: Place<'_>, levels: u8) -> Result<Value, MappingError> {
    Ok(match value {
        CoreValue::Simple(value) => property_to_amqp(value),
        CoreValue::Symbol(text) => to_symbol(text, place)?.into(),
        CoreValue::List(values) => List(all_to_amqp(values, place, deeper(levels, place)?)?).into(),
        CoreValue::Map(pairs) => {
            let levels = deeper(levels, place)?;
            let pairs =
                pairs.iter().map(|(key, value)| Ok((to_amqp(key, place, levels)?, to_amqp(value, place, levels)?)));
            Map(pairs.collect::<Result<_, _>>()?).into()
        }
        CoreValue::Array(values) => array_to_amqp(all_to_amqp(values, place, deeper(levels, place)?)?, place)?,
        CoreValue::Described(pair) => {
            let levels = deeper(levels, place)?;
            let (descriptor, value) = (to_amqp(&pair.0, place, levels)?, to_amqp(&pair.1, place, levels)?);
            restored(&descriptor, &value).unwrap_or_else(|| Value::Described(Box::new(Described { descriptor, value })))
        }
    })
}

pub(super) fn to_symbol(text: &str, place: Place<'_>) -> Result<Symbol, MappingError> {
    Symbol::try_from(text).map_err(|_| place.error(MappingErrorKind::NotAscii))
}

fn all_to_amqp(values: &[CoreValue], place: Place<'_>, levels: u8) -> Result<Vec<Value>, MappingError> {
    values.iter().map(|value| to_amqp(value, place, levels)).collect()
}

/// Whether two descriptors are equal. A float that is not a number is equal to the same one.
fn are_equal(one: &Value, other: &Value) -> bool {
    one == other || matches!((codec::encode(one), codec::encode(other)), (Ok(one), Ok(other)) if one == other)
}

fn array_to_amqp(mut values: Vec<Value>, place: Place<'_>) -> Result<Value, MappingError> {
    let mut descriptors = Vec::new();
    while let Some(Value::Described(first)) = values.first() {
        let descriptor = first.descriptor.clone();
        let is_same =
            |value: &Value| matches!(value, Value::Described(other) if are_equal(&other.descriptor, &descriptor));
        if !values.iter().all(is_same) {
            return Err(place.error(MappingErrorKind::MixedArray));
        }
        let inner = |value| match value {
            Value::Described(described) => described.value,
            other => other,
        };
        values = values.into_iter().map(inner).collect();
        descriptors.push(descriptor);
    }
    let element = values.first().map_or(ValueType::Null, Value::value_type);
    let array = Array::described(descriptors, element, values);
    array.map(Value::Array).map_err(|_| place.error(MappingErrorKind::MixedArray))
}

/// The value for which a message has no type.
fn restored(descriptor: &Value, value: &Value) -> Option<Value> {
    let Value::Symbol(name) = descriptor else { return None };
    match (name.as_str(), value) {
        (DECIMAL_32, Value::Binary(bytes)) => Some(Decimal32(bytes.as_ref().try_into().ok()?).into()),
        (DECIMAL_64, Value::Binary(bytes)) => Some(Decimal64(bytes.as_ref().try_into().ok()?).into()),
        (EMPTY_ARRAY, Value::List(List(parts))) => {
            let (element, descriptors) = parts.split_first()?;
            let Value::Symbol(element) = element else { return None };
            let element = ValueType::from_name(element)?;
            Array::described(descriptors.to_vec(), element, Vec::new()).ok().map(Value::Array)
        }
        _ => None,
    }
}
