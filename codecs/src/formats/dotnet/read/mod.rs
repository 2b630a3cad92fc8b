//! Serde's side of reading: which elements each type takes.

mod deserializer;
mod numbers;

use std::borrow::Cow;

use serde::de::{Error, Unexpected, Visitor};

use self::numbers::{number, whole};
use super::{
    access::{Dictionary, Items, Members, UnitVariant, Variant},
    reader::{Content, Reader, Scalar},
    value::Value,
};
use crate::{
    formats::{number::Integer, octets, single::Single},
    serde_error::Refused,
};

impl<'de> Reader<'_, 'de> {
    fn any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        match self.content()? {
            Content::Nil => visitor.visit_unit(),
            Content::Empty => visitor.visit_borrowed_str(""),
            Content::One(value) => scalar(value, visitor),
            Content::Texts => match self.joined() {
                Scalar::Bytes(bytes) => visitor.visit_byte_buf(bytes),
                Scalar::Text(text) => visitor.visit_string(text),
                Scalar::Value(value) => scalar(value, visitor),
            },
            Content::Elements if self.is_dictionary() => self.dictionary(visitor),
            Content::Elements if self.is_list() => self.list(visitor),
            Content::Elements => self.members(visitor),
        }
    }

    fn list<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        let mut items = Items::new(self.document, self.node);
        let value = visitor.visit_seq(&mut items)?;
        items.end()?;
        Ok(value)
    }

    fn members<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        let mut members = Members::new(self.document, self.node);
        let value = visitor.visit_map(&mut members)?;
        members.end()?;
        Ok(value)
    }

    fn dictionary<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        let mut entries = Dictionary::new(self.document, self.node);
        let value = visitor.visit_map(&mut entries)?;
        entries.end()?;
        Ok(value)
    }

    fn boolean<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        match self.text()?.as_deref().map(str::trim) {
            Some("true" | "1") => visitor.visit_bool(true),
            Some("false" | "0") => visitor.visit_bool(false),
            _ => self.any(visitor),
        }
    }

    fn integer<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        match self.content()? {
            Content::One(Value::Float(value)) => return Integer(visitor).visit_f32(*value),
            Content::One(Value::Double(value)) => return Integer(visitor).visit_f64(*value),
            Content::One(Value::Bytes(_)) => return self.any(visitor),
            _ => {}
        }
        let Some(text) = self.text()? else { return self.any(visitor) };
        let text = whole(text.trim());
        match (text.parse::<u64>(), text.parse::<i64>()) {
            (Ok(value), _) => visitor.visit_u64(value),
            (_, Ok(value)) => visitor.visit_i64(value),
            _ => self.any(visitor),
        }
    }

    fn float<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        match self.content()? {
            Content::One(Value::Float(value)) => return visitor.visit_f32(*value),
            Content::One(Value::Double(value)) => return visitor.visit_f64(*value),
            Content::One(Value::Bytes(_)) => return self.any(visitor),
            _ => {}
        }
        match self.text()?.and_then(|text| number(text.trim())) {
            Some(value) => visitor.visit_f64(value),
            None => self.any(visitor),
        }
    }

    /// Reads a float of 32 bits. From text it is the nearest one, without a step in between.
    fn single<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        if let Content::One(Value::Text(text)) = self.content()?
            && let Some(value) = number(text.trim())
            && let Ok(nearest) = text.trim().parse::<f32>()
            && nearest.is_finite() == value.is_finite()
        {
            return visitor.visit_f32(nearest);
        }
        self.float(Single(visitor))
    }

    /// Reads a character: .NET writes the number of its UTF-16 unit.
    fn character<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        let Some(text) = self.text()? else { return self.any(visitor) };
        match text.parse().ok().map(char::from_u32) {
            Some(Some(character)) => visitor.visit_char(character),
            Some(None) => Err(Refused::invalid_value(Unexpected::Unsigned(0), &visitor)),
            None => self.any(visitor),
        }
    }

    fn str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        match self.string()? {
            Some(Cow::Borrowed(text)) => visitor.visit_borrowed_str(text),
            Some(Cow::Owned(text)) => visitor.visit_string(text),
            None => self.any(visitor),
        }
    }

    fn octets<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        match self.bytes()? {
            Some(Cow::Borrowed(bytes)) => visitor.visit_borrowed_bytes(bytes),
            Some(Cow::Owned(bytes)) => visitor.visit_byte_buf(bytes),
            // A type that takes text as bytes would accept text that is not base64.
            None if self.text()?.is_some() => Err(Refused::invalid_value(Unexpected::Str(""), &visitor)),
            None => self.any(visitor),
        }
    }

    fn sequence<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        match self.content()? {
            Content::Nil => self.any(visitor),
            Content::Empty | Content::Elements => self.list(visitor),
            Content::One(_) | Content::Texts => match self.bytes()? {
                Some(bytes) => octets::read(&bytes, visitor),
                None => self.any(visitor),
            },
        }
    }

    fn map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        match self.content()? {
            Content::Elements if self.is_dictionary() => self.dictionary(visitor),
            Content::Elements | Content::Empty => self.members(visitor),
            _ => self.any(visitor),
        }
    }

    fn structure<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        match self.content()? {
            Content::Elements | Content::Empty => self.members(visitor),
            _ => self.any(visitor),
        }
    }

    fn option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        match self.document.element(self.node) {
            Some(element) if element.is_nil => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        match self.content()? {
            Content::Nil | Content::Empty => visitor.visit_unit(),
            _ => self.any(visitor),
        }
    }

    fn variant<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        match self.content()? {
            Content::Nil => self.any(visitor),
            Content::Elements => {
                let mut elements = self.elements();
                match (elements.next(), elements.next()) {
                    (Some(node), None) => visitor.visit_enum(Variant::new(self.document, node)),
                    _ => self.any(visitor),
                }
            }
            _ => visitor.visit_enum(UnitVariant(self.text()?.unwrap_or_default())),
        }
    }
}

/// Passes on a value as what it is.
fn scalar<'de, V: Visitor<'de>>(value: &Value<'de>, visitor: V) -> Result<V::Value, Refused> {
    match *value {
        Value::Text(Cow::Borrowed(text)) => visitor.visit_borrowed_str(text),
        Value::Bytes(bytes) => visitor.visit_borrowed_bytes(bytes),
        Value::Bool(value) => visitor.visit_bool(value),
        Value::Int(value) => match u64::try_from(value) {
            Ok(value) => visitor.visit_u64(value),
            Err(_) => visitor.visit_i64(value),
        },
        Value::Unsigned(value) => visitor.visit_u64(value),
        Value::Float(value) => visitor.visit_f32(value),
        Value::Double(value) => visitor.visit_f64(value),
        _ => visitor.visit_str(&value.text()),
    }
}
