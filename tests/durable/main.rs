//! The embedded broker on a disk, from outside.
#![cfg(feature = "durable")]
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "tests")]

mod closed;
mod consumer;
mod declare;
mod deep;
mod golden;
#[cfg(unix)]
mod kill;
mod lines;
mod locks;
#[path = "../poison/log.rs"]
mod log;
mod meanwhile;
#[cfg(target_os = "linux")]
mod recorded;
mod reopen;
mod rescue;
mod support;
mod together;
