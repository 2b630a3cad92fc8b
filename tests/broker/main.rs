//! The embedded broker through its public API.
#![cfg(feature = "embedded")]

mod dead_letter;
mod deferral;
mod delivery_count;
mod expiry;
mod model;
mod peek;
mod random;
mod send;
mod sequence;
mod settlement;
mod support;
mod waiting;
