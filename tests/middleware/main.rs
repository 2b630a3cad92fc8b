//! The layers through the public API: alone around a mock, under virtual time, and among tower's own.
#![allow(clippy::unwrap_used)]

mod exercise;
mod support;

mod busy_pause;
mod catch_panic;
mod circuit_breaker;
mod contract;
mod dead_letter;
mod dedup;
mod dedup_faults;
mod dedup_log;
#[cfg(feature = "testing")]
mod delayed_retry;
#[cfg(feature = "json")]
mod delivery_limit;
#[cfg(feature = "json")]
mod encode;
mod expiry;
mod from_fn;
mod in_flight;
mod lock_renewal;
mod message_id;
mod retry;
mod send_retry;
mod size_limit;
mod tower_layers;
mod trace;
