//! The HTTP listener, feature `http`.
//!
//! [`Server::serve_http`](crate::Server::serve_http) serves AMQP over WebSocket on the path `/$servicebus/websocket`.

mod listener;
mod options;
mod router;
mod web_socket;

pub use self::options::HttpOptions;
pub(crate) use self::router::router;
