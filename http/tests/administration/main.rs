//! The documents of the administration: what is written is read, what clients write is read, and what is hostile is refused.
#![allow(clippy::unwrap_used)]

mod clients;
mod hostile;
mod round_trips;
