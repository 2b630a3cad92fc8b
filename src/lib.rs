//! A tower stack around a message broker.
#![forbid(unsafe_code)]

#[cfg(feature = "embedded")]
pub mod broker;
pub mod consumer;
mod decode;
pub mod message;
pub mod middleware;
pub mod routing;
pub mod settlement;
pub mod time;
pub mod transport;

pub use consign_codecs as codecs;

pub use crate::{message::Message, settlement::Disposition};
