//! Serde's side of reading: which elements each type takes.

mod deserializer;
mod numbers;

use std::borrow::Cow;

use serde::de::{Error, Unexpected, Visitor};

use self::numbers::{number, whole};
use super::{
    access::{Dictionary, Items, Members, Octets, UnitVariant, Variant},
    base64_text,
    document::{Document, Kind, Namespace},
    value::Value,
};
use crate::{
    DecodeError, DecodeErrorKind,
    formats::number::{Integer, Single},
    serde_error::Refused,
};

/// One element.
#[derive(Clone, Copy)]
pub(super) struct Reader<'d, 'de> {
    document: &'d Document<'de>,
    node: usize,
}

/// What an element has inside.
enum Content<'d, 'de> {
    Nil,
    Empty,
    One(&'d Value<'de>),
    /// Several texts.
    Texts,
    Elements,
}

/// What the text of an element is, after its pieces are put together.
enum Scalar<'d, 'de> {
    Value(&'d Value<'de>),
    Text(String),
    Bytes(Vec<u8>),
}

impl<'d, 'de> Reader<'d, 'de> {
    pub(super) const fn new(document: &'d Document<'de>, node: usize) -> Self {
        Self { document, node }
    }

    fn content(self) -> Result<Content<'d, 'de>, Refused> {
        let Some(element) = self.document.element(self.node) else { return Ok(Content::Empty) };
        if element.is_reference {
            let error = DecodeError::new(DecodeErrorKind::Type);
            return Err(error.with_detail("references to other objects are not supported").into());
        }
        if element.is_nil {
            return Ok(Content::Nil);
        }
        let (mut first, mut texts) = (None, 0_usize);
        for (_, kind) in self.document.inside(self.node) {
            match kind {
                Kind::Element(_) => return Ok(Content::Elements),
                Kind::Value(value) => {
                    first = first.or(Some(value));
                    texts += 1;
                }
            }
        }
        Ok(match first {
            None => Content::Empty,
            Some(value) if texts == 1 => Content::One(value),
            Some(_) => Content::Texts,
        })
    }

    /// Puts the texts of an element together: all are bytes, or all are text.
    fn joined(self) -> Scalar<'d, 'de> {
        let values = || {
            self.document.inside(self.node).filter_map(|(_, kind)| match kind {
                Kind::Value(value) => Some(value),
                Kind::Element(_) => None,
            })
        };
        if values().all(|value| matches!(value, Value::Bytes(_))) {
            let parts = values().filter_map(|value| if let Value::Bytes(bytes) = value { Some(*bytes) } else { None });
            return Scalar::Bytes(parts.collect::<Vec<_>>().concat());
        }
        Scalar::Text(values().map(Value::text).collect())
    }

    /// Returns the text of the element; `None` if it has none.
    fn scalar(self, content: &Content<'d, 'de>) -> Option<Scalar<'d, 'de>> {
        match content {
            Content::Nil | Content::Elements => None,
            Content::Empty => Some(Scalar::Text(String::new())),
            Content::One(value) => Some(Scalar::Value(value)),
            Content::Texts => Some(self.joined()),
        }
    }

    /// Returns the text, for types that take text and for numbers.
    fn text(self) -> Result<Option<Cow<'d, str>>, Refused> {
        let content = self.content()?;
        Ok(self.scalar(&content).map(|scalar| match scalar {
            Scalar::Value(value) => value.text(),
            Scalar::Text(text) => Cow::Owned(text),
            Scalar::Bytes(bytes) => Cow::Owned(base64_text::encode(&bytes)),
        }))
    }

    /// Returns the bytes of the element: bytes, or text in base64. `None` if it is something else.
    pub(super) fn bytes(self) -> Result<Option<Cow<'de, [u8]>>, Refused> {
        let content = self.content()?;
        Ok(match self.scalar(&content) {
            Some(Scalar::Value(Value::Bytes(bytes))) => Some(Cow::Borrowed(*bytes)),
            Some(Scalar::Value(Value::Text(text))) => base64_text::decode(text).map(Cow::Owned),
            Some(Scalar::Text(text)) => base64_text::decode(&text).map(Cow::Owned),
            Some(Scalar::Bytes(bytes)) => Some(Cow::Owned(bytes)),
            // `0` and `1` have records of their own, also where they are text.
            Some(Scalar::Value(value)) => base64_text::decode(&value.text()).map(Cow::Owned),
            None => None,
        })
    }

    /// Returns the text of the element, borrowed if it can be.
    pub(super) fn string(self) -> Result<Option<Cow<'de, str>>, Refused> {
        if let Content::One(value) = self.content()?
            && let Some(text) = value.borrowed()
        {
            return Ok(Some(Cow::Borrowed(text)));
        }
        Ok(self.text()?.map(|text| Cow::Owned(text.into_owned())))
    }

    /// Adds the place of this element to an error that has none.
    #[cold]
    fn at(self, refused: Refused) -> Refused {
        let error = refused.into_inner();
        if error.position().is_some() { error.into() } else { error.at(self.document.position(self.node)).into() }
    }

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

    /// Whether the elements inside are entries of a dictionary.
    fn is_dictionary(self) -> bool {
        let first = self.elements().next().and_then(|node| self.document.element(node));
        first.is_some_and(|it| it.namespace == Namespace::Arrays && it.name.starts_with("KeyValueOf"))
    }

    /// Whether the elements inside look like those of a list: simple values, or more than one of the same name.
    fn is_list(self) -> bool {
        let mut elements = self.elements().filter_map(|node| self.document.element(node));
        let Some(first) = elements.next() else { return false };
        if first.namespace == Namespace::Arrays {
            return true;
        }
        let mut others = elements.peekable();
        others.peek().is_some() && others.all(|other| other.name == first.name)
    }

    fn elements(self) -> impl Iterator<Item = usize> + 'd
    where
        'de: 'd,
    {
        self.document.inside(self.node).filter(|(_, kind)| matches!(kind, Kind::Element(_))).map(|(node, _)| node)
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
                Some(bytes) => {
                    let mut octets = Octets::new(&bytes);
                    let value = visitor.visit_seq(&mut octets)?;
                    octets.end()?;
                    Ok(value)
                }
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
