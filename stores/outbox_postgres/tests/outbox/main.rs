//! Outboxes on a real PostgreSQL, with relays to the embedded broker and to real brokers.
#![cfg(feature = "postgres")]
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod blocked;
mod closed;
#[path = "../../../../transports/postgres/tests/support/cluster.rs"]
#[allow(dead_code, reason = "tests of the transport use the rest")]
mod cluster;
mod databases;
mod failing;
mod kills;
mod missing;
mod relays;
mod rows;
mod same_database;
mod silent;
mod support;
