//! The formats through their public face: what they read back, what they refuse, and what refusing costs.
//!
//! Random tests are seeded. `SEED` sets the seed and `CONSIGN_CASES` the number of cases; a failure prints both.
#![cfg(feature = "full")]
// Unsafe: an allocator that counts. Unwraps: clippy lets them pass in test functions, not in what those call.
#![allow(unsafe_code, clippy::unwrap_used)]

mod allocations;
mod amqp_value;
mod avro;
mod avro_types;
mod canary;
mod cbor;
mod explain;
mod hostile;
mod msgpack;
mod names;
mod plugin;
mod random;
mod refusals;
mod round_trip;
mod support;
mod wrong_codec;
