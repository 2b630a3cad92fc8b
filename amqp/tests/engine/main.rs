//! The engine through its public API.
//!
//! Random tests are seeded: `SEED` sets the seed and `CONSIGN_CASES` the number of cases; a failure prints both.

#![allow(clippy::unwrap_used)]

mod damaged;
mod deliveries;
mod handshake;
mod limits;
mod links;
mod pairs;
mod peer;
mod transactions;
mod violations;
