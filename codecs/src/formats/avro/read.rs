//! A body as a deserializer. The schema that it was written with determines where each value is.

use serde::de::{Deserializer, Error, Unexpected, Visitor, value::SeqDeserializer};

use super::{
    access::{Branch, Entries, Fields, Items, Symbol},
    reader::Reader,
    schema::{Node, Unit},
};
use crate::{
    DecodeErrorKind,
    formats::{extension::Extension, seconds::Seconds},
    instant::INSTANT,
    serde_error::Refused,
};

impl<'de, 's> Reader<'_, 'de, 's> {
    fn value<V: Visitor<'de>>(mut self, node: &'s Node, visitor: V) -> Result<V::Value, Refused> {
        match node {
            Node::Null => visitor.visit_unit(),
            Node::Boolean => visitor.visit_bool(self.input.boolean()?),
            Node::Int => visitor.visit_i32(self.input.int()?),
            Node::Long(_) => visitor.visit_i64(self.input.long()?),
            Node::Float => visitor.visit_f32(f32::from_le_bytes(self.input.array()?)),
            Node::Double => visitor.visit_f64(f64::from_le_bytes(self.input.array()?)),
            Node::Bytes => visitor.visit_borrowed_bytes(self.input.bytes()?),
            Node::Fixed(fixed) => visitor.visit_borrowed_bytes(self.input.take(fixed.size)?),
            Node::String => visitor.visit_borrowed_str(self.input.text()?),
            Node::Enum(of) => visitor.visit_str(self.symbol(&of.symbols)?),
            Node::Array(items) => self.inside(|reader| {
                let mut items = Items::new(reader.input, reader.schema, *items);
                let value = visitor.visit_seq(&mut items)?;
                items.end()?;
                Ok(value)
            }),
            Node::Map(values) => self.inside(|reader| {
                let mut entries = Entries(Items::new(reader.input, reader.schema, *values));
                let value = visitor.visit_map(&mut entries)?;
                entries.0.end()?;
                Ok(value)
            }),
            Node::Record(record) => self.inside(|reader| {
                let mut fields = Fields::new(reader.input, reader.schema, &record.fields);
                let value = visitor.visit_map(&mut fields)?;
                fields.end()?;
                Ok(value)
            }),
            // A branch of a union is not a union.
            Node::Union(_) => Err(self.input.refuse(DecodeErrorKind::Syntax)),
        }
    }

    /// Reads an instant for a type that takes one, whatever its unit is.
    fn instant<V: Visitor<'de>>(self, unit: Unit, visitor: V) -> Result<V::Value, Refused> {
        let (value, per_second) = (self.input.long()?, unit.per_second());
        let micros = value.rem_euclid(per_second) * 1_000_000 / per_second;
        // Less than a second.
        let micros = u32::try_from(micros).map_err(|_| self.input.refuse(DecodeErrorKind::Syntax))?;
        visitor.visit_seq(Extension::from(Seconds { seconds: value.div_euclid(per_second), micros }))
    }
}

macro_rules! as_any {
    ($($name:ident($($arg:ident: $type:ty),*);)*) => {$(
        #[inline]
        fn $name<V: Visitor<'de>>(self, $($arg: $type,)* visitor: V) -> Result<V::Value, Refused> {
            self.deserialize_any(visitor)
        }
    )*};
}

impl<'de> Deserializer<'de> for Reader<'_, 'de, '_> {
    type Error = Refused;

    as_any! {
        deserialize_bool();
        deserialize_i8();
        deserialize_i16();
        deserialize_i32();
        deserialize_i64();
        deserialize_i128();
        deserialize_u8();
        deserialize_u16();
        deserialize_u32();
        deserialize_u64();
        deserialize_u128();
        deserialize_f32();
        deserialize_f64();
        deserialize_char();
        deserialize_str();
        deserialize_string();
        deserialize_bytes();
        deserialize_byte_buf();
        deserialize_unit();
        deserialize_unit_struct(_name: &'static str);
        deserialize_map();
        deserialize_struct(_name: &'static str, _fields: &'static [&'static str]);
        deserialize_identifier();
    }

    fn deserialize_any<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Refused> {
        let node = self.node()?;
        self.value(node, visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Refused> {
        match self.node()? {
            Node::Null => visitor.visit_none(),
            // The branch is known, and is read once.
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        mut self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Refused> {
        if name == INSTANT
            && let Node::Long(Some(unit)) = self.node()?
        {
            return self.instant(*unit, visitor);
        }
        visitor.visit_newtype_struct(self)
    }

    /// Bytes are a sequence too, for `Vec<u8>` and `[u8; N]`.
    fn deserialize_seq<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Refused> {
        let bytes = match self.node()? {
            Node::Bytes => self.input.bytes()?,
            Node::Fixed(fixed) => self.input.take(fixed.size)?,
            node => return self.value(node, visitor),
        };
        let mut bytes = SeqDeserializer::<_, Refused>::new(bytes.iter().copied());
        let value = visitor.visit_seq(&mut bytes)?;
        bytes.end()?;
        Ok(value)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Refused> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, Refused> {
        self.deserialize_seq(visitor)
    }

    /// A variant is a symbol of an enum, or a branch of a union by its name.
    fn deserialize_enum<V: Visitor<'de>>(
        mut self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refused> {
        let is_union = matches!(self.schema.node(self.id), Node::Union(_));
        match self.node()? {
            Node::Enum(of) => visitor.visit_enum(Symbol(self.symbol(&of.symbols)?)),
            Node::String => visitor.visit_enum(Symbol(self.input.text()?)),
            _ if is_union => visitor.visit_enum(Branch(self)),
            // The outermost type of a schema may be one of the types of an enum in Rust.
            Node::Record(_) => visitor.visit_enum(Branch(self)),
            node => Err(Refused::invalid_type(Unexpected::Other(node.kind()), &visitor)),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        self.skip()?;
        visitor.visit_unit()
    }

    fn is_human_readable(&self) -> bool {
        false
    }
}
