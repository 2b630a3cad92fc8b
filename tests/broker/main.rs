//! The embedded broker through its public API.
#![cfg(feature = "embedded")]
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]
#![allow(clippy::unchecked_time_subtraction, reason = "what went below zero would be a mistake of the test")]
#![allow(clippy::similar_names, reason = "receivers receive, and what they received is locked")]

mod administration;
mod dead_letter;
mod deferral;
mod delivery_count;
mod duplicates;
mod expiry;
mod forwarding;
mod idle;
#[path = "../poison/log.rs"]
mod log;
mod namespace;
mod owners;
mod partitions;
mod peek;
mod quirks;
mod quotas;
mod random_sessions;
mod scheduling;
mod send;
mod sequence;
mod session_waiting;
mod sessions;
mod settlement;
mod snapshot;
mod support;
mod topic_quotas;
mod topics;
mod transactions;
mod waiting;
