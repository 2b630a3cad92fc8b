use std::time::Duration;

use axum::Router;
use consign_amqp::server::Acceptor;

/// How HTTP is served, and its limits.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HttpOptions {
    /// Does the handshake of TLS, if it has a configuration. Without one HTTP is not encrypted.
    pub acceptor: Acceptor,
    /// The most connections of a listener at a time, at least 1. 1,000 by default. Those that are upgraded to AMQP over WebSocket count
    /// toward the limits of AMQP instead.
    ///
    /// One more closes the one that is without a request for longest. A connection on which no request for an entity was authorized is
    /// closed before all others, also during a request. If each has a request of an authorized client in progress, the new one is closed.
    pub max_connections: usize,
    /// The largest request line with its headers in bytes, at least 8,192. 65,536 by default. A larger one is answered with 431, or
    /// with 414 if the URL alone has more than 65,534 bytes.
    pub max_header_size: usize,
    /// The most headers of a request. 100 by default. More are answered with 431.
    pub max_headers: usize,
    /// How long a client may take for the headers of a request, and how long a connection may be without a request. 30 seconds by
    /// default.
    pub header_timeout: Duration,
    /// How long a client may take for the body of a request. 60 seconds by default.
    pub body_timeout: Duration,
    /// Further routes, such as those of the page. None by default. They come before those of entities of the same name.
    pub routes: Router,
    /// How long a client may leave a response unread. 60 seconds by default. Then the connection is closed.
    pub write_timeout: Duration,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            acceptor: Acceptor::new(),
            max_connections: 1_000,
            max_header_size: 64 * 1_024,
            max_headers: 100,
            header_timeout: Duration::from_secs(30),
            body_timeout: Duration::from_secs(60),
            routes: Router::new(),
            write_timeout: Duration::from_secs(60),
        }
    }
}

impl HttpOptions {
    pub(super) fn header_size(&self) -> usize {
        self.max_header_size.max(8_192)
    }

    /// Sets `acceptor`.
    #[must_use]
    pub fn acceptor(mut self, acceptor: Acceptor) -> Self {
        self.acceptor = acceptor;
        self
    }

    /// Sets `max_connections`.
    #[must_use]
    pub fn max_connections(mut self, connections: usize) -> Self {
        self.max_connections = connections;
        self
    }

    /// Sets `header_timeout`.
    #[must_use]
    pub fn header_timeout(mut self, timeout: Duration) -> Self {
        self.header_timeout = timeout;
        self
    }

    /// Adds `routes`. Their router has no fallback.
    #[must_use]
    pub fn routes(mut self, routes: Router) -> Self {
        self.routes = self.routes.merge(routes);
        self
    }

    /// Sets `body_timeout`.
    #[must_use]
    pub fn body_timeout(mut self, timeout: Duration) -> Self {
        self.body_timeout = timeout;
        self
    }

    /// Sets `write_timeout`.
    #[must_use]
    pub fn write_timeout(mut self, timeout: Duration) -> Self {
        self.write_timeout = timeout;
        self
    }
}
