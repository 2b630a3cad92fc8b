//! The send side, over a simulated connection under virtual time.
#![cfg(feature = "testing")]
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod arithmetic;
mod link;
mod outcomes;
mod publisher;
mod recorder;
mod retries;
mod support;
mod weather;
