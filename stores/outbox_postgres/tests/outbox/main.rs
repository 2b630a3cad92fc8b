//! Outboxes on a real PostgreSQL, with relays to the embedded broker and to real brokers.
#![cfg(feature = "postgres")]
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod closed;
mod failing;
mod kills;
mod relays;
mod same_database;
mod silent;
mod support;
