use consign_codecs::CodecSet;

use super::{Context, FromMessage};
use crate::{
    Message,
    message_types::{ReceiveTypes, TypeError, TypeTable, read_as},
};

/// A message as a value of an enum of types, with what it was received as. An enum that is derived is an argument of a
/// handler by itself too. A message that is not a value of the enum is dead-lettered, see [`types`](crate::message_types).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Typed<E> {
    /// The value.
    pub value: E,
    /// The name of its type.
    pub name: &'static str,
    /// The version that the body was of. `None` for a type without versions.
    pub version: Option<u32>,
}

impl<E: ReceiveTypes, S, C: CodecSet> FromMessage<S, C> for Typed<E> {
    type Rejection = TypeError;

    #[inline]
    fn from_message(message: &Message, cx: &Context<S, C>) -> Result<Self, TypeError> {
        let (value, resolved) = read_as(message, cx.codecs())?;
        Ok(Self { value, name: E::TYPES.types()[resolved.index].name(), version: resolved.version })
    }

    fn type_table() -> Option<&'static TypeTable> {
        Some(const { &E::TYPES })
    }
}
