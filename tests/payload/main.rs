//! The layers that change bodies, through the public API.
//!
//! Random tests are seeded. `SEED` sets the seed and `CONSIGN_CASES` the number of cases; a failure prints both.
#![cfg(feature = "full")]
#![allow(clippy::unwrap_used)]

mod claim_check;
mod cloud_events;
mod content_encoding;
mod encryption;
mod interop;
mod keyed;
mod random;
mod signing;
mod stacks;
#[path = "../middleware/support.rs"]
#[allow(dead_code, reason = "the layers of other rooms need more of it")]
mod support;
mod timestamps;
mod vectors;
