//! What cannot be handled, through the real thing: embedded broker, consumer, router, codecs.
//!
//! Random tests are seeded; a failure prints the seed. `SEED` and `CONSIGN_CASES` replay it.
#![cfg(feature = "full")]
// Clippy lets them pass in test functions, not in what those call.
#![allow(clippy::unwrap_used)]

mod attacks;
mod fleet;
mod handlers;
mod log;
mod outcomes;
mod random;
mod rows;
mod support;
mod table;
