use std::{borrow::Cow, fmt, str::FromStr};

use bytes::Bytes;
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use uuid::Uuid;

use super::{As, Form, sealed::Kind};
use crate::{
    message::{PropertyValue, Value},
    time::Timestamp,
    wire::{
        Type,
        digits::{from_base64, from_hex},
        text,
    },
};

impl<'de, F: Form> Deserialize<'de> for As<F, PropertyValue> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Simple(F::KIND)).map(Self::new)
    }
}

impl<'de, F: Form> Deserialize<'de> for As<F, Value> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Any { kind: F::KIND, levels: F::LEVELS }.deserialize(deserializer).map(Self::new)
    }
}

impl<'de, F: Form> Deserialize<'de> for As<F, Cow<'_, PropertyValue>> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        As::<F, PropertyValue>::deserialize(deserializer).map(|read| Self::new(Cow::Owned(read.into_inner())))
    }
}

impl<'de, F: Form> Deserialize<'de> for As<F, Cow<'_, Value>> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        As::<F, Value>::deserialize(deserializer).map(|read| Self::new(Cow::Owned(read.into_inner())))
    }
}

/// The contents may be secret: none of them are in the text.
fn expected<T, E: Error>(what: &'static str) -> Result<T, E> {
    Err(E::custom(format_args!("expected {what}")))
}

/// Reads a simple value.
struct Simple(Kind);

impl Simple {
    fn natural<T, E: Error>(&self, value: impl Into<T>) -> Result<T, E> {
        if self.0 == Kind::Natural { Ok(value.into()) } else { expected("a value of this form") }
    }

    fn text<E: Error>(&self, text: &str) -> Result<PropertyValue, E> {
        match self.0 {
            Kind::Natural => Ok(text.into()),
            Kind::Text => text::read(text).map_err(E::custom),
            Kind::Tagged if text == Type::Null.name() => Ok(PropertyValue::Null),
            Kind::Tagged => expected("a value with its type"),
        }
    }
}

impl<'de> Visitor<'de> for Simple {
    type Value = PropertyValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a simple value")
    }

    fn visit_unit<E: Error>(self) -> Result<PropertyValue, E> {
        self.natural(PropertyValue::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<PropertyValue, E> {
        self.natural(value)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<PropertyValue, E> {
        self.natural(value)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<PropertyValue, E> {
        i64::try_from(value).map_or_else(|_| expected("a signed number of 64 bits"), |value| self.natural(value))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<PropertyValue, E> {
        self.text(text)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<PropertyValue, A::Error> {
        let Some(Name::Type(kind)) = map.next_key()? else { return expected("a type of a simple value") };
        let value = typed(self.0, kind, &mut map)?;
        only_member(map)?;
        Ok(value)
    }
}

fn only_member<'de, A: MapAccess<'de>>(mut map: A) -> Result<(), A::Error> {
    if map.next_key::<IgnoredAny>()?.is_some() { expected("one member") } else { Ok(()) }
}

/// The name of a member.
enum Name {
    Type(Type),
    Simple,
    Symbol,
    List,
    Array,
    Map,
    Described,
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameVisitor;
        impl Visitor<'_> for NameVisitor {
            type Value = Name;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a type")
            }

            fn visit_str<E: Error>(self, name: &str) -> Result<Name, E> {
                Ok(match name {
                    "simple" => Name::Simple,
                    "symbol" => Name::Symbol,
                    "list" => Name::List,
                    "array" => Name::Array,
                    "map" => Name::Map,
                    "described" => Name::Described,
                    _ => match Type::from_name(name) {
                        Some(kind) => Name::Type(kind),
                        None => return expected("the name of a type"),
                    },
                })
            }
        }
        deserializer.deserialize_str(NameVisitor)
    }
}

/// Reads the value of a member that is called by its type.
fn typed<'de, A: MapAccess<'de>>(form: Kind, kind: Type, map: &mut A) -> Result<PropertyValue, A::Error> {
    let is_natural = match (form, kind) {
        (Kind::Tagged, _) => false,
        (Kind::Natural, Type::Null | Type::Bool | Type::I64 | Type::String) | (Kind::Text, _) => {
            return expected("a value of this form");
        }
        (Kind::Natural, _) => true,
    };
    Ok(match kind {
        Type::Null => {
            map.next_value::<()>()?;
            PropertyValue::Null
        }
        Type::Bool => map.next_value::<bool>()?.into(),
        Type::U8 => map.next_value::<u8>()?.into(),
        Type::U16 => map.next_value::<u16>()?.into(),
        Type::U32 => map.next_value::<u32>()?.into(),
        Type::U64 => map.next_value::<u64>()?.into(),
        Type::I8 => map.next_value::<i8>()?.into(),
        Type::I16 => map.next_value::<i16>()?.into(),
        Type::I32 => map.next_value::<i32>()?.into(),
        Type::I64 => map.next_value::<i64>()?.into(),
        Type::F32 if !is_natural => f32::from_bits(map.next_value()?).into(),
        Type::F64 if !is_natural => f64::from_bits(map.next_value()?).into(),
        Type::F32 => {
            let bits = |bits| u32::try_from(bits).ok().map(f32::from_bits);
            float(&map.next_value::<String>()?, bits).map_or_else(|| expected("a floating-point number"), Ok)?.into()
        }
        Type::F64 => {
            let bits = |bits| Some(f64::from_bits(bits));
            float(&map.next_value::<String>()?, bits).map_or_else(|| expected("a floating-point number"), Ok)?.into()
        }
        Type::Char => map.next_value::<char>()?.into(),
        Type::String => PropertyValue::String(map.next_value()?),
        Type::Uri => PropertyValue::Uri(map.next_value()?),
        Type::Uuid if is_natural => match Uuid::try_parse(&map.next_value::<String>()?) {
            Ok(uuid) => PropertyValue::Uuid(uuid.into_bytes()),
            Err(_) => return expected("a UUID"),
        },
        Type::Decimal => PropertyValue::Decimal(sixteen(is_natural, map)?),
        Type::Uuid => PropertyValue::Uuid(sixteen(is_natural, map)?),
        Type::DateTime => Timestamp::from_millis(map.next_value()?).into(),
        Type::DateTimeOffset => PropertyValue::DateTimeOffset(map.next_value()?),
        Type::TimeSpan => PropertyValue::TimeSpan(map.next_value()?),
        Type::Bytes => Bytes::from(digits(is_natural, map)?).into(),
    })
}

/// Reads a decimal number, or `0x` and the bits of one.
fn float<T: FromStr>(text: &str, of_bits: impl FnOnce(u64) -> Option<T>) -> Option<T> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok().and_then(of_bits),
        None => text.parse().ok(),
    }
}

fn digits<'de, A: MapAccess<'de>>(is_natural: bool, map: &mut A) -> Result<Vec<u8>, A::Error> {
    let text: String = map.next_value()?;
    match if is_natural { from_base64(&text) } else { from_hex(&text) } {
        Some(bytes) => Ok(bytes),
        None if is_natural => expected("base64"),
        None => expected("hexadecimal digits"),
    }
}

fn sixteen<'de, A: MapAccess<'de>>(is_natural: bool, map: &mut A) -> Result<[u8; 16], A::Error> {
    digits(is_natural, map)?.try_into().or_else(|_| expected("16 bytes"))
}

/// Reads a value of so many levels.
#[derive(Clone, Copy)]
struct Any {
    kind: Kind,
    levels: usize,
}

impl Any {
    fn simple<T, E: Error>(self, visit: impl FnOnce(Simple) -> Result<T, E>) -> Result<T, E> {
        // In this form a simple value is a member of an object.
        if self.kind == Kind::Tagged { expected("an object") } else { visit(Simple(self.kind)) }
    }
}

impl<'de> DeserializeSeed<'de> for Any {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        match self.levels.checked_sub(1) {
            Some(levels) => deserializer.deserialize_any(Self { levels, ..self }),
            None => expected("fewer levels"),
        }
    }
}

/// `levels` are those of the values inside.
impl<'de> Visitor<'de> for Any {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        self.simple(Simple::visit_unit).map(Value::Simple)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        self.simple(|simple| simple.visit_bool(value)).map(Value::Simple)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        self.simple(|simple| simple.visit_i64(value)).map(Value::Simple)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        self.simple(|simple| simple.visit_u64(value)).map(Value::Simple)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        self.simple(|simple| simple.visit_str(text)).map(Value::Simple)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let Some(name) = map.next_key()? else { return expected("the name of a type") };
        let is_natural = self.kind == Kind::Natural;
        let value = match name {
            Name::Symbol => Value::Symbol(map.next_value()?),
            Name::Type(kind) if is_natural => typed(self.kind, kind, &mut map)?.into(),
            Name::Simple if self.kind == Kind::Tagged => Value::Simple(map.next_value_seed(SimpleSeed(self.kind))?),
            Name::List if !is_natural => Value::List(map.next_value_seed(All(self))?),
            Name::Array if !is_natural => Value::Array(map.next_value_seed(All(self))?),
            Name::Map if !is_natural => Value::Map(map.next_value_seed(Entries(self))?),
            Name::Described if !is_natural => Value::Described(Box::new(map.next_value_seed(Pair(self))?)),
            _ => return expected("the name of a type of this form"),
        };
        only_member(map)?;
        Ok(value)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        if self.kind != Kind::Natural {
            return expected("an object");
        }
        let Some(name) = seq.next_element()? else { return expected("the kind of a list") };
        match name {
            Name::List => Ok(Value::List(rest(self, seq)?)),
            Name::Array => Ok(Value::Array(rest(self, seq)?)),
            Name::Map => {
                let mut entries = Vec::new();
                while let Some(key) = seq.next_element_seed(self)? {
                    let Some(value) = seq.next_element_seed(self)? else { return expected("a value for each key") };
                    entries.push((key, value));
                }
                Ok(Value::Map(entries))
            }
            Name::Described => Ok(Value::Described(Box::new(pair(self, seq)?))),
            _ => expected("the kind of a list"),
        }
    }
}

fn rest<'de, A: SeqAccess<'de>>(of: Any, mut seq: A) -> Result<Vec<Value>, A::Error> {
    let mut values = Vec::new();
    while let Some(value) = seq.next_element_seed(of)? {
        values.push(value);
    }
    Ok(values)
}

fn pair<'de, A: SeqAccess<'de>>(of: Any, mut seq: A) -> Result<(Value, Value), A::Error> {
    let (Some(first), Some(second), None) =
        (seq.next_element_seed(of)?, seq.next_element_seed(of)?, seq.next_element::<IgnoredAny>()?)
    else {
        return expected("two values");
    };
    Ok((first, second))
}

struct SimpleSeed(Kind);

impl<'de> DeserializeSeed<'de> for SimpleSeed {
    type Value = PropertyValue;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<PropertyValue, D::Error> {
        deserializer.deserialize_any(Simple(self.0))
    }
}

fn entries<'de, A: SeqAccess<'de>>(of: Any, mut seq: A) -> Result<Vec<(Value, Value)>, A::Error> {
    let mut entries = Vec::new();
    while let Some(entry) = seq.next_element_seed(Pair(of))? {
        entries.push(entry);
    }
    Ok(entries)
}

/// Reads something from a list.
macro_rules! list {
    ($name:ident -> $of:ty, $expected:literal, $read:expr) => {
        struct $name(Any);

        impl<'de> DeserializeSeed<'de> for $name {
            type Value = $of;

            fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<$of, D::Error> {
                deserializer.deserialize_seq(self)
            }
        }

        impl<'de> Visitor<'de> for $name {
            type Value = $of;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str($expected)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<$of, A::Error> {
                $read(self.0, seq)
            }
        }
    };
}

list!(All -> Vec<Value>, "values", rest);
list!(Pair -> (Value, Value), "two values", pair);
list!(Entries -> Vec<(Value, Value)>, "pairs of a key and a value", entries);
