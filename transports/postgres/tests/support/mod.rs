//! What several test binaries share.
#![allow(dead_code, clippy::unwrap_used, reason = "helpers of tests, of which no binary takes all")]

pub(crate) mod backend;
pub(crate) mod cluster;
pub(crate) mod pgbouncer;
pub(crate) mod server;
