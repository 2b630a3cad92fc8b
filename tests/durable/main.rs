//! The embedded broker on a disk, from outside.
#![cfg(feature = "durable")]
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "tests")]

mod closed;
mod consumer;
mod deep;
#[cfg(unix)]
mod kill;
mod lines;
mod locks;
mod meanwhile;
mod reopen;
mod support;
