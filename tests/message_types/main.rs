//! Types of messages, their versions, and what is said of wrong ones, through the public API.
#![cfg(feature = "full")]
// Clippy lets them pass in test functions, not in what those call.
#![allow(clippy::unwrap_used)]

mod events;
mod receiving;
mod sending;
mod wrong;
