//! The codec through its public API.
//!
//! Random tests are seeded: `SEED` sets the seed and `CONSIGN_CASES` the number of cases; a failure prints both.

#![allow(clippy::unwrap_used)]

mod batches;
mod composites;
mod encodings;
mod frames;
mod generate;
mod messages;
mod notation;
mod random;
mod refusals;
mod vectors;
mod widths;

use std::fmt::Write;

use bytes::Bytes;
use consign_amqp::codec::{self, Decode, DecodeError};

/// Bytes from hexadecimal digits; spaces are ignored.
fn hex(digits: &str) -> Bytes {
    let digits: Vec<u8> = digits.bytes().filter(|byte| *byte != b' ').collect();
    let pairs = digits.chunks(2);
    pairs.map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).expect("hexadecimal digits")).collect()
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut digits, byte| {
        write!(digits, "{byte:02x}").unwrap();
        digits
    })
}

fn decode<T: Decode>(digits: &str) -> Result<T, DecodeError> {
    codec::decode(&hex(digits))
}
