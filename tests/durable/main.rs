//! The embedded broker on a disk, from outside.
#![cfg(feature = "durable")]

mod deep;
mod reopen;
mod support;
