//! Values in bytes.
//!
//! A value is its number, one byte, and what follows. Numbers below 32 are those of a [`Type`](super::Type).
//!
//! | type | number | what follows |
//! |---|---|---|
//! | null | 0 | nothing |
//! | bool | 1 | one byte, 0 or 1 |
//! | `u8` | 2 | one byte |
//! | `u16`, `u32`, `u64` | 3, 4, 5 | unsigned |
//! | `i8` | 6 | one byte, two's complement |
//! | `i16`, `i32`, `i64` | 7, 8, 9 | signed |
//! | `f32`, `f64` | 10, 11 | 4 and 8 bytes, little-endian; every bit is kept |
//! | char | 12 | unsigned: 0 to 0x10ffff without surrogates |
//! | string, URI | 13, 19 | text |
//! | decimal, UUID | 14, 15 | 16 bytes |
//! | `date_time`, `date_time_offset`, `time_span` | 16, 17, 18 | signed |
//! | bytes | 20 | bytes |
//! | symbol | 32 | text |
//! | list, array | 33, 35 | a count, unsigned, and so many values |
//! | map | 34 | a count of entries, unsigned, and of each the key and the value |
//! | described value | 36 | two values: the descriptor and the value |
//!
//! - **unsigned**: seven bits in each byte, the lowest first; the eighth bit marks that more follow. At most 10 bytes and 64
//!   bits. A number that exceeds its type is an error; a number that is longer than it must be is read.
//! - **signed**: unsigned, with the sign in the lowest bit: 0, -1, 1, -2 are 0, 1, 2, 3.
//! - **bytes**: their count, unsigned, and the bytes. **text**: bytes that are UTF-8.
//!
//! ```
//! use consign_core::{message::Value, wire::binary::{self, Reader}};
//!
//! let mut out = Vec::new();
//! binary::value(&mut out, &Value::List(vec![Value::from(-1_i32), Value::from("a")]));
//! assert_eq!(out, [33, 2, 8, 1, 13, 1, b'a']);
//! let mut reader = Reader::new(&out);
//! assert_eq!(reader.value(32)?, Value::List(vec![Value::from(-1_i32), Value::from("a")]));
//! reader.finish()?;
//! # Ok::<(), consign_core::wire::Malformed>(())
//! ```

mod reader;
mod write;

pub use self::{
    reader::Reader,
    write::{bytes, signed, simple, text, unsigned, value, values},
};

/// The numbers of values that are not simple.
mod number {
    pub(super) const SYMBOL: u8 = 32;
    pub(super) const LIST: u8 = 33;
    pub(super) const MAP: u8 = 34;
    pub(super) const ARRAY: u8 = 35;
    pub(super) const DESCRIBED: u8 = 36;
}
