//! Values of AMQP 1.0 as a serde format: [`from_value`] reads a Rust type from a value, [`to_value`] writes one.
//!
//! The crate has no type of such values. A crate that has one implements [`Node`] for reading and [`Build`] for writing.
//!
//! | AMQP 1.0 | Rust |
//! |---|---|
//! | null | `()`, `None` |
//! | boolean, integers, float, double, char | the types of the same name, and wider ones |
//! | string, symbol | text, or an enum's variant without data |
//! | binary | bytes, or a sequence of `u8` |
//! | uuid | bytes, a sequence of 16 `u8`, or text: hyphenated, in lower case |
//! | timestamp | `i64`: milliseconds since 1970-01-01 UTC |
//! | decimal32, decimal64, decimal128 | the 4, 8 or 16 bytes |
//! | list, array | a sequence, a tuple, or a struct by the order of its fields |
//! | map | a map, a struct by the names of its fields, or, with one entry, an enum's variant with data |
//! | described value | as the value without its descriptor |
//!
//! Elements of a list, and bytes, that the type does not read are refused. A double out of the range of `f32` is not read as one. Keys
//! and variants that are not text are the names of no field and no variant.
//!
//! Text of a value can be borrowed. The format is not human-readable: a `Uuid` of the crate `uuid` is bytes.
//!
//! # Limits
//!
//! [`Limits::depth`](crate::Limits::depth) and [`Limits::elements`](crate::Limits::elements) apply as in the other formats.
//! A pair of a map is one element. Values that the type ignores are not counted: they are in memory already, and are not
//! visited.

mod access;
mod deserializer;
mod node;
mod read;
mod serializer;

pub use self::{
    deserializer::{Deserializer, Error, from_value},
    node::{Build, Name, Node, Scalar, View},
    serializer::{SerializeError, Serializer, to_value},
};

/// The name of the codec in trails, in `describe()` and in observers.
pub const NAME: &str = "amqp-value";

/// Returns the milliseconds since 1970 of an instant in ticks of 100 ns since the year 1, as .NET has it. Fractions are discarded.
#[must_use]
pub const fn millis_of_ticks(ticks: i64) -> i64 {
    const MILLIS_TO_1970: i64 = 62_135_596_800_000;
    ticks.div_euclid(10_000) - MILLIS_TO_1970
}
