//! A body as a deserializer. The schema that it was written with determines where each value is.

use serde::de::{
    Deserializer, Error, IntoDeserializer, Unexpected, Visitor,
    value::{I64Deserializer, SeqAccessDeserializer},
};

use super::{
    access::{Branch, Entries, Fields, Items, Symbol},
    input::Input,
    reader::Reader,
    schema::{Node, Unit},
};
use crate::{
    DecodeErrorKind,
    formats::{extension::Extension, octets, seconds::Seconds, single::Single},
    instant::INSTANT,
    serde_error::Refused,
    transcode::EXACT,
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

    /// Reads a value for a type that is not the one of an instant.
    fn read<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Refused> {
        let node = self.node()?;
        self.value(node, visitor)
    }

    /// Reads an instant of this unit.
    fn seconds(self, unit: Unit) -> Result<Seconds, Refused> {
        let (value, per_second) = (self.input.long()?, unit.per_second());
        let nanos = value.rem_euclid(per_second) * (1_000_000_000 / per_second);
        // Less than a second.
        let nanos = u32::try_from(nanos).map_err(|_| self.input.refuse(DecodeErrorKind::Syntax))?;
        Ok(Seconds { seconds: value.div_euclid(per_second), nanos })
    }
}

macro_rules! as_any {
    ($($name:ident($($arg:ident: $type:ty),*);)*) => {$(
        #[inline]
        fn $name<V: Visitor<'de>>(self, $($arg: $type,)* visitor: V) -> Result<V::Value, Refused> {
            self.read(visitor)
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

    /// A number of microseconds or nanoseconds could not be distinguished from milliseconds by what serde buffers.
    fn deserialize_any<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Refused> {
        match self.node()? {
            Node::Long(Some(unit @ (Unit::Micros | Unit::Nanos))) if !self.input.is_number(self.id) => {
                let seconds = self.seconds(*unit)?;
                match seconds.to_text() {
                    Some(text) => visitor.visit_string(text),
                    None => visitor.visit_newtype_struct(SeqAccessDeserializer::new(Extension::from(seconds))),
                }
            }
            node => self.value(node, visitor),
        }
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        self.read(Single(visitor))
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
        if name == INSTANT || name == EXACT {
            match self.node()? {
                Node::Long(Some(unit)) if name == INSTANT => {
                    return visitor.visit_seq(Extension::from(self.seconds(*unit)?));
                }
                Node::Long(Some(_)) => {
                    let number: I64Deserializer<Refused> = self.input.long()?.into_deserializer();
                    return visitor.visit_newtype_struct(number);
                }
                _ if name == INSTANT && self.schema.is_other_time(self.id) => {
                    return Err(Refused::invalid_type(Unexpected::Other("a day or a time without a zone"), &visitor));
                }
                _ => {}
            }
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
        octets::read(bytes, visitor)
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

    /// A variant is a symbol of an enum, or a branch of a union by its name. If no other branch has the name of a variant, a text or a
    /// symbol that has one is that variant.
    fn deserialize_enum<V: Visitor<'de>>(
        mut self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refused> {
        let node = self.node()?;
        let is_variant = match (node, self.named(variants)) {
            (_, 0) => false,
            (Node::Enum(of), 1) => {
                let symbol = of.symbols.get(self.input.peek(Input::index)?);
                !symbol.is_some_and(|symbol| variants.contains(&symbol.as_str()))
            }
            (Node::String, 1) => !variants.contains(&self.input.peek(Input::text)?),
            _ => true,
        };
        match node {
            _ if is_variant => visitor.visit_enum(Branch(self)),
            Node::Enum(of) => visitor.visit_enum(Symbol(self.symbol(&of.symbols)?)),
            Node::String => visitor.visit_enum(Symbol(self.input.text()?)),
            _ if self.is_branch() => visitor.visit_enum(Branch(self)),
            // The outermost type of a schema may be one of the types of an enum in Rust.
            Node::Record(_) => visitor.visit_enum(Branch(self)),
            node => Err(Refused::invalid_type(Unexpected::Other(node.kind()), &visitor)),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        self.skip()?;
        visitor.visit_unit()
    }

    /// Ids and addresses are text in a string, and bytes elsewhere.
    fn is_human_readable(&self) -> bool {
        self.schema.is_text(self.id)
    }
}
