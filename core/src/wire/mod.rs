//! Typed values in bytes, in text and in JSON: the forms in which transports and stores keep application properties and
//! bodies.
//!
//! A [`PropertyValue`](crate::message::PropertyValue) has one of 21 types, and a [`Value`](crate::message::Value) is one of these, a symbol or a
//! container. Every form keeps the type: a value is read as it was written. What each version writes, every later version
//! reads, so a form never changes; it may get further types.
//!
//! # Types
//!
//! | [`Type`] | number | name | short name | value |
//! |---|---|---|---|---|
//! | `Null` | 0 | `null` | `null` | nothing |
//! | `Bool` | 1 | `bool` | `bool` | false or true |
//! | `U8`, `U16`, `U32`, `U64` | 2, 3, 4, 5 | `u8` ... `u64` | the same | unsigned integer of that many bits |
//! | `I8`, `I16`, `I32`, `I64` | 6, 7, 8, 9 | `i8` ... `i64` | the same | signed integer of that many bits |
//! | `F32`, `F64` | 10, 11 | `f32`, `f64` | the same | IEEE 754 binary32, binary64 |
//! | `Char` | 12 | `char` | `char` | one Unicode scalar value |
//! | `String` | 13 | `string` | `s` | text |
//! | `Decimal` | 14 | `decimal` | `decimal` | IEEE 754 decimal128, 16 bytes as the sender encoded them |
//! | `Uuid` | 15 | `uuid` | `uuid` | 16 bytes in network order |
//! | `DateTime` | 16 | `date_time` | `time` | milliseconds since 1970-01-01 UTC, signed, 64 bits |
//! | `DateTimeOffset` | 17 | `date_time_offset` | `offset` | ticks of 100 ns since 0001-01-01 UTC, signed, 64 bits |
//! | `TimeSpan` | 18 | `time_span` | `span` | ticks of 100 ns, signed, 64 bits |
//! | `Uri` | 19 | `uri` | `uri` | text |
//! | `Bytes` | 20 | `bytes` | `bytes` | bytes |
//!
//! An instant later than 9999-12-31T23:59:59.999Z is read as that instant, which is [`Timestamp::MAX`](crate::time::Timestamp).
//!
//! # Forms
//!
//! - [`binary`]: one byte for the type, and variable-length integers. Records of the durable broker.
//! - [`text`]: `TYPE:VALUE` by the short name, for simple values only. Headers of NATS.
//! - [`json`]: three forms, for rows of PostgreSQL, payloads of NATS, and lines that people read.
//!
//! # Limits
//!
//! A value has at most [`VALUE_LEVELS`](crate::message::limits::VALUE_LEVELS) levels, unless a form says otherwise: a simple value is
//! one level, a list of simple values two. Readers check levels before they descend, and each length and count against the
//! bytes that are left, so nothing is allocated for a number that a peer has made up.
//!
//! # Errors
//!
//! [`Malformed`] has the place and what was expected there, and none of the contents. In JSON it is an error of the
//! deserializer, which has the place.

pub mod binary;
mod digits;
#[doc(hidden)]
pub mod fields;
pub mod json;
mod malformed;
#[cfg(test)]
mod tests;
pub mod text;
mod types;

pub use self::{
    digits::{from_hex, hex},
    malformed::{Malformed, Problem},
    types::Type,
};
