//! AMQP over WebSocket: the bytes of the stream in binary messages.

mod adapter;
mod handshake;
mod options;

pub(crate) use self::handshake::{accept, connect};
pub use self::options::{Subprotocol, WebSocketOptions};
