//! The embedded broker under shuttle, which chooses the order of threads: `cargo xtask shuttle`.
#![cfg(shuttle)]
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod explore;
mod scheduled;
mod sessions;
mod settlement;
mod support;
mod transactions;
mod waiting;
