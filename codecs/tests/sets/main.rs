//! Sets of codecs through their public face: which codec reads, what happens when none does, and what is said about it.
//!
//! Random tests are seeded. `SEED` sets the seed and `CONSIGN_CASES` the number of cases; a failure prints both.
#![cfg(feature = "full")]
// Unsafe: an allocator that counts. Unwraps: clippy lets them pass in test functions, not in what those call.
#![allow(unsafe_code, clippy::unwrap_used)]

mod allocations;
mod config;
mod content_type;
mod describe;
mod encode;
mod fleet;
mod hostile;
mod observe;
mod one_of;
mod own_formats;
mod policies;
mod random;
mod rows;
mod support;
mod trail;
mod transcode;
