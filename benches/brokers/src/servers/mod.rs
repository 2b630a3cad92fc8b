//! What answers over a connection.

pub(crate) mod consign;
pub(crate) mod nats;
pub(crate) mod postgres;
pub(crate) mod rabbitmq;

pub(crate) fn variable(name: &str, default: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| default.to_owned())
}
