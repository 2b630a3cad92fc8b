//! Handlers, extractors and the router through the public API.
#![cfg(feature = "full")]
// Clippy lets them pass in test functions, not in what those call.
#![allow(clippy::unwrap_used)]

mod amqp_value;
mod composed;
mod extractors;
mod foreign_bodies;
mod own_format;
mod router;
mod support;
