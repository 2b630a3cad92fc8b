//! The brokers that the tests use.

#![allow(dead_code, unused_imports, reason = "not every test uses all of it")]

pub(crate) mod backend;
pub(crate) mod certificates;
pub(crate) mod managed;
pub(crate) mod node;
pub(crate) mod proton;
pub(crate) mod rabbitmq;

/// A name that no other run has.
pub(crate) fn unique(name: &str) -> String {
    format!("t{:016x}-{name}", fastrand::u64(..))
}
