use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

/// What a client says that it sends over WebSocket. Both are AMQP 1.0, SASL included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Subprotocol {
    /// `amqp`, of the OASIS binding of AMQP to WebSocket.
    Amqp,
    /// `AMQPWSB10`, of Azure Service Bus.
    ServiceBus,
}

impl Subprotocol {
    /// Returns the name in the header `Sec-WebSocket-Protocol`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Amqp => "amqp",
            Self::ServiceBus => "AMQPWSB10",
        }
    }
}

/// How a connection is upgraded to WebSocket, and its limits.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WebSocketOptions {
    /// The path of the request, with its query if it has one. A server refuses other paths, and ignores the query.
    pub path: String,
    /// A client offers these, by preference. A server takes the first offer that is one of them.
    pub subprotocols: Vec<Subprotocol>,
    /// The largest message that is read, in bytes, 1 to 64 MiB. 1 MiB by default.
    pub max_message_size: usize,
}

/// The largest message that is written. The bytes of a write may be split at any place.
pub(super) const WRITE: usize = 64 * 1_024;

/// The largest limit on messages that are read.
const LARGEST: usize = 64 * 1_024 * 1_024;

impl WebSocketOptions {
    /// Creates options with a path and the subprotocol [`Subprotocol::Amqp`].
    #[must_use]
    pub fn new(path: impl Into<String>) -> Self {
        Self { path: path.into(), subprotocols: vec![Subprotocol::Amqp], max_message_size: 1_024 * 1_024 }
    }

    /// Creates options with the path `/$servicebus/websocket` and the subprotocol [`Subprotocol::ServiceBus`], of Azure
    /// Service Bus.
    #[must_use]
    pub fn service_bus() -> Self {
        Self::new("/$servicebus/websocket").subprotocols([Subprotocol::ServiceBus])
    }

    /// Sets [`WebSocketOptions::subprotocols`].
    #[must_use]
    pub fn subprotocols(mut self, subprotocols: impl IntoIterator<Item = Subprotocol>) -> Self {
        self.subprotocols = subprotocols.into_iter().collect();
        self
    }

    /// Sets [`WebSocketOptions::max_message_size`], in bytes.
    #[must_use]
    pub const fn max_message_size(mut self, size: usize) -> Self {
        self.max_message_size = size;
        self
    }

    pub(super) fn to_config(&self) -> WebSocketConfig {
        let size = self.max_message_size.clamp(1, LARGEST);
        WebSocketConfig::default()
            .read_buffer_size(16 * 1_024)
            // Each message goes to the stream at once.
            .write_buffer_size(0)
            // One message, and a ping's answer and a close.
            .max_write_buffer_size(WRITE + 1_024)
            .max_message_size(Some(size))
            .max_frame_size(Some(size))
    }
}
