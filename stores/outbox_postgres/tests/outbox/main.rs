//! Outboxes on a real PostgreSQL, with relays to the embedded broker and to real brokers.
#![cfg(feature = "postgres")]

mod kills;
mod relays;
mod support;
