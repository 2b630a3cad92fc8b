//! The routes of the page.
#![allow(clippy::unwrap_used)]

mod actions;
mod lists;
mod security;
mod support;
mod transports;
