//! What an exporter gets: exact names, attributes, parents and links, and labels that stay few.
#![allow(clippy::unwrap_used)]

#[path = "../../../../tests/middleware/exercise.rs"]
mod exercise;
#[allow(dead_code, reason = "other layers need more of it")]
#[path = "../../../../tests/middleware/support.rs"]
mod support;

mod bench;
mod cardinality;
mod consumed;
mod contract;
mod conventions;
mod failures;
mod propagation;
mod receiver;
mod recording;
mod scenarios;
