//! A value in a body, and how its bytes are found.

use super::{
    input::Input,
    schema::{AvroSchema, Id, Node},
};
use crate::{DecodeErrorKind, serde_error::Refused};

/// One value, of a type of the schema.
pub(super) struct Reader<'i, 'de, 's> {
    pub(super) input: &'i mut Input<'de>,
    pub(super) schema: &'s AvroSchema,
    pub(super) id: Id,
    /// The union that the type is a branch of, if the branch is known already.
    union: &'s [Id],
}

impl<'i, 'de, 's> Reader<'i, 'de, 's> {
    pub(super) fn new(input: &'i mut Input<'de>, schema: &'s AvroSchema, id: Id) -> Self {
        Self { input, schema, id, union: &[] }
    }

    /// Returns the type of the value: of a union, the branch that the body selects.
    pub(super) fn node(&mut self) -> Result<&'s Node, Refused> {
        if let Node::Union(branches) = self.schema.node(self.id) {
            self.union = branches;
            let branch = self.input.index()?;
            self.id = *branches.get(branch).ok_or_else(|| self.input.refuse(DecodeErrorKind::Syntax))?;
        }
        Ok(self.schema.node(self.id))
    }

    /// Returns whether the value is a branch of a union.
    pub(super) fn is_branch(&self) -> bool {
        !self.union.is_empty()
    }

    /// Returns how many branches of the union have the name of a variant, if that of the value does.
    pub(super) fn named(&self, variants: &[&str]) -> usize {
        let has_name = |id| variants.contains(&self.schema.node(id).label());
        if self.is_branch() && has_name(self.id) { self.union.iter().filter(|&&id| has_name(id)).count() } else { 0 }
    }

    /// Reads the contents of a container.
    pub(super) fn inside<T>(mut self, read: impl FnOnce(&mut Self) -> Result<T, Refused>) -> Result<T, Refused> {
        self.input.enter()?;
        let value = read(&mut self)?;
        self.input.leave();
        Ok(value)
    }

    pub(super) fn symbol(&mut self, symbols: &'s [String]) -> Result<&'s str, Refused> {
        let index = self.input.index()?;
        symbols.get(index).map(String::as_str).ok_or_else(|| self.input.refuse(DecodeErrorKind::Syntax))
    }

    /// Reads over a value that the type does not take.
    pub(super) fn skip(mut self) -> Result<(), Refused> {
        let node = self.node()?;
        match node {
            Node::Null => {}
            Node::Boolean => drop(self.input.boolean()?),
            Node::Int => drop(self.input.int()?),
            Node::Long(_) => drop(self.input.long()?),
            Node::Float => drop(self.input.array::<4>()?),
            Node::Double => drop(self.input.array::<8>()?),
            Node::Bytes | Node::String => drop(self.input.bytes()?),
            Node::Fixed(fixed) => drop(self.input.take(fixed.size)?),
            Node::Enum(of) => drop(self.symbol(&of.symbols)?),
            Node::Union(_) => return Err(self.input.refuse(DecodeErrorKind::Syntax)),
            Node::Array(id) | Node::Map(id) => {
                return self.inside(|reader| {
                    let has_keys = matches!(node, Node::Map(_));
                    loop {
                        let count = reader.input.block()?;
                        if count == 0 {
                            return Ok(());
                        }
                        for _ in 0..count {
                            if has_keys {
                                reader.input.bytes()?;
                            }
                            Reader::new(reader.input, reader.schema, *id).skip()?;
                        }
                    }
                });
            }
            Node::Record(record) => {
                return self.inside(|reader| {
                    record.fields.iter().try_for_each(|field| Reader::new(reader.input, reader.schema, field.id).skip())
                });
            }
        }
        Ok(())
    }
}
