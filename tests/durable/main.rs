//! The embedded broker on a disk, from outside.
#![cfg(feature = "durable")]

mod reopen;
mod support;
