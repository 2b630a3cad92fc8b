//! Unit is null, as in every other CBOR library and in RFC 8949. The serde side of `cbor4ii` has it as an empty array, and
//! so would turn each null of a generic value into one.

mod read;
mod write;

/// Stands around a (de)serializer, and around what it hands out and is handed, so that it sees each unit.
pub(super) struct Null<T>(pub(super) T);
