//! The HTTP listener: messages, the administration of entities, AMQP over WebSocket, and what is refused.
#![allow(clippy::unwrap_used)]

mod administration;
mod authorization;
mod curl;
mod exchange;
mod hostile;
mod listener;
#[path = "../protocol/log.rs"]
mod log;
mod messages;
mod shutdown;
mod support;
