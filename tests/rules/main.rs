//! Rules of subscriptions, and the language of their filters and actions, through the public API.
// Clippy lets them pass in test functions, not in what those call.
#![allow(clippy::unwrap_used)]

mod action;
mod correlation;
mod like;
mod model;
mod parse;
mod round_trip;
mod set;
mod sql;
mod support;
mod system;
