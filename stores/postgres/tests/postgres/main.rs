//! The store on a real PostgreSQL, which `scripts/brokers` has at hand.
#![allow(clippy::unwrap_used)]

#[path = "../../../cases.rs"]
mod cases;
mod support;

mod broken;
mod faults;
mod kill;
mod table;
mod transaction;

use support::Bench;
