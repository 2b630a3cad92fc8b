use std::{borrow::Cow, marker::PhantomData};

use serde::{Serialize, Serializer, ser::SerializeSeq};
use uuid::Uuid;

use super::{As, Form, sealed::Kind};
use crate::{
    message::{PropertyValue, Value},
    wire::{
        Type,
        digits::{base64, hex},
        text,
    },
};

impl<F: Form> Serialize for As<F, &PropertyValue> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match (F::KIND, self.value) {
            (Kind::Text, value) => serializer.serialize_str(&text::write(value)),
            (Kind::Tagged, PropertyValue::Null) => {
                serializer.serialize_unit_variant("Type", 0, Type::of(self.value).name())
            }
            (Kind::Natural, PropertyValue::Null) => serializer.serialize_unit(),
            (Kind::Natural, PropertyValue::Bool(value)) => serializer.serialize_bool(*value),
            (Kind::Natural, PropertyValue::I64(value)) => serializer.serialize_i64(*value),
            (Kind::Natural, PropertyValue::String(value)) => serializer.serialize_str(value),
            (kind, value) => typed(serializer, value, kind == Kind::Natural),
        }
    }
}

impl<F: Form> Serialize for As<F, Cow<'_, PropertyValue>> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        As::<F, _>::new(&*self.value).serialize(serializer)
    }
}

impl<F: Form> Serialize for As<F, Cow<'_, Value>> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        As::<F, _>::new(&*self.value).serialize(serializer)
    }
}

/// An object of the name of a type, and the value.
fn typed<S: Serializer>(serializer: S, value: &PropertyValue, is_natural: bool) -> Result<S::Ok, S::Error> {
    let name = Type::of(value).name();
    let digits = |bytes: &[u8]| if is_natural { base64(bytes) } else { hex(bytes) };
    match value {
        PropertyValue::Null => member(serializer, name, &()),
        PropertyValue::Bool(value) => member(serializer, name, value),
        PropertyValue::U8(value) => member(serializer, name, value),
        PropertyValue::U16(value) => member(serializer, name, value),
        PropertyValue::U32(value) => member(serializer, name, value),
        PropertyValue::U64(value) => member(serializer, name, value),
        PropertyValue::I8(value) => member(serializer, name, value),
        PropertyValue::I16(value) => member(serializer, name, value),
        PropertyValue::I32(value) => member(serializer, name, value),
        PropertyValue::I64(value) | PropertyValue::DateTimeOffset(value) | PropertyValue::TimeSpan(value) => {
            member(serializer, name, value)
        }
        PropertyValue::F32(value) if !is_natural => member(serializer, name, &value.to_bits()),
        PropertyValue::F64(value) if !is_natural => member(serializer, name, &value.to_bits()),
        PropertyValue::F32(value) if value.is_nan() => member(serializer, name, &format!("0x{:08x}", value.to_bits())),
        PropertyValue::F64(value) if value.is_nan() => member(serializer, name, &format!("0x{:016x}", value.to_bits())),
        PropertyValue::F32(value) => member(serializer, name, &format!("{value:?}")),
        PropertyValue::F64(value) => member(serializer, name, &format!("{value:?}")),
        PropertyValue::Char(value) => member(serializer, name, value),
        PropertyValue::String(value) | PropertyValue::Uri(value) => member(serializer, name, value),
        PropertyValue::Uuid(value) if is_natural => {
            member(serializer, name, &Uuid::from_bytes_ref(value).hyphenated().to_string())
        }
        PropertyValue::Decimal(value) | PropertyValue::Uuid(value) => member(serializer, name, &digits(value)),
        PropertyValue::DateTime(value) => member(serializer, name, &value.as_millis()),
        PropertyValue::Bytes(value) => member(serializer, name, &digits(value)),
    }
}

fn member<S: Serializer>(
    serializer: S,
    name: &'static str,
    value: &(impl Serialize + ?Sized),
) -> Result<S::Ok, S::Error> {
    serializer.serialize_newtype_variant("Type", 0, name, value)
}

impl<F: Form> Serialize for As<F, &Value> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let is_natural = F::KIND == Kind::Natural;
        match self.value {
            Value::Simple(value) if F::KIND == Kind::Tagged => member(serializer, "simple", &As::<F, _>::new(value)),
            Value::Simple(value) => As::<F, _>::new(value).serialize(serializer),
            Value::Symbol(text) => member(serializer, "symbol", text),
            Value::List(values) if is_natural => seq::<F, S>(serializer, "list", values.iter()),
            Value::Array(values) if is_natural => seq::<F, S>(serializer, "array", values.iter()),
            Value::Map(entries) if is_natural => {
                seq::<F, S>(serializer, "map", entries.iter().flat_map(|(key, value)| [key, value]))
            }
            Value::Described(pair) if is_natural => {
                seq::<F, S>(serializer, "described", [&pair.0, &pair.1].into_iter())
            }
            Value::List(values) => member(serializer, "list", &All::<F>(values, PhantomData)),
            Value::Array(values) => member(serializer, "array", &All::<F>(values, PhantomData)),
            Value::Map(entries) => {
                let pairs: Vec<_> =
                    entries.iter().map(|(key, value)| (As::<F, _>::new(key), As::<F, _>::new(value))).collect();
                member(serializer, "map", &pairs)
            }
            Value::Described(pair) => {
                member(serializer, "described", &(As::<F, _>::new(&pair.0), As::<F, _>::new(&pair.1)))
            }
        }
    }
}

/// A list that begins with its kind.
fn seq<'v, F: Form, S: Serializer>(
    serializer: S,
    kind: &'static str,
    values: impl Iterator<Item = &'v Value>,
) -> Result<S::Ok, S::Error> {
    let mut seq = serializer.serialize_seq(None)?;
    seq.serialize_element(kind)?;
    for value in values {
        seq.serialize_element(&As::<F, _>::new(value))?;
    }
    seq.end()
}

struct All<'v, F>(&'v [Value], PhantomData<F>);

impl<F: Form> Serialize for All<'_, F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(As::<F, _>::new))
    }
}
