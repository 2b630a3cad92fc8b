#[cfg(feature = "tls")]
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};

#[cfg(feature = "tls")]
use crate::stream::ErrorKind;
#[cfg(feature = "websocket")]
use crate::stream::{self, WebSocketOptions};
use crate::stream::{Deadline, Error, Stream};

/// Does the handshakes of TLS (feature `tls`) and WebSocket (feature `websocket`) on accepted streams.
///
/// ```no_run
/// # #[cfg(all(feature = "tls", feature = "websocket"))]
/// # async fn run(config: std::sync::Arc<consign_amqp::rustls::ServerConfig>) -> Result<(), Box<dyn std::error::Error>> {
/// use consign_amqp::{
///     engine::Options,
///     server::{Acceptor, Connection},
///     stream::WebSocketOptions,
/// };
///
/// let acceptor = Acceptor::new().tls(config).web_socket(WebSocketOptions::service_bus());
/// let listener = tokio::net::TcpListener::bind("127.0.0.1:443").await?;
/// loop {
///     let (stream, _) = listener.accept().await?;
///     stream.set_nodelay(true)?;
///     let acceptor = acceptor.clone();
///     // A client that is slow delays no other.
///     tokio::spawn(async move {
///         if let Ok(stream) = acceptor.accept(stream).await {
///             let connection = Connection::accept(stream, Options::default());
/// #           drop(connection);
///         }
///     });
/// }
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Acceptor {
    timeout: Duration,
    #[cfg(feature = "tls")]
    tls: Option<Arc<tokio_rustls::rustls::ServerConfig>>,
    #[cfg(feature = "websocket")]
    web_socket: Option<WebSocketOptions>,
}

impl Default for Acceptor {
    fn default() -> Self {
        Self::new()
    }
}

impl Acceptor {
    /// Creates an acceptor without TLS and WebSocket.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            timeout: Duration::from_secs(20),
            #[cfg(feature = "tls")]
            tls: None,
            #[cfg(feature = "websocket")]
            web_socket: None,
        }
    }

    /// Sets how long the handshakes of a stream may take together. 20 seconds by default.
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Requires TLS.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(mut self, config: Arc<tokio_rustls::rustls::ServerConfig>) -> Self {
        self.tls = Some(config);
        self
    }

    /// Returns whether it requires TLS.
    #[must_use]
    pub const fn has_tls(&self) -> bool {
        #[cfg(feature = "tls")]
        return self.tls.is_some();
        #[cfg(not(feature = "tls"))]
        false
    }

    /// Requires WebSocket. The header of the request has at most 64 KiB and 124 fields.
    #[cfg(feature = "websocket")]
    #[must_use]
    pub fn web_socket(mut self, options: WebSocketOptions) -> Self {
        self.web_socket = Some(options);
        self
    }

    /// Does the handshakes.
    ///
    /// # Errors
    /// [`ErrorKind::Tls`](crate::stream::ErrorKind::Tls), [`ErrorKind::WebSocket`](crate::stream::ErrorKind::WebSocket),
    /// [`ErrorKind::TimedOut`](crate::stream::ErrorKind::TimedOut).
    ///
    /// # Cancel safety
    /// Dropping the future closes the stream.
    ///
    /// # Panics
    /// Panics if it is called outside of a Tokio runtime with time.
    pub async fn accept<S>(&self, stream: S) -> Result<Stream, Error>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let deadline = Deadline::new(self.timeout);
        #[cfg(feature = "tls")]
        if let Some(config) = &self.tls {
            let handshake = async {
                let stream = tokio_rustls::TlsAcceptor::from(Arc::clone(config)).accept(stream).await;
                stream.map_err(|error| Error::new(ErrorKind::Tls, error))
            };
            let stream = deadline.within("TLS handshake", Box::pin(handshake)).await?;
            return self.upgrade(stream, deadline).await;
        }
        self.upgrade(stream, deadline).await
    }

    #[cfg(feature = "websocket")]
    async fn upgrade<S>(&self, stream: S, deadline: Deadline) -> Result<Stream, Error>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let Some(options) = &self.web_socket else { return Ok(Stream::new(stream)) };
        let handshake = Box::pin(stream::accept(stream, options));
        Ok(Stream::new(deadline.within("WebSocket handshake", handshake).await?))
    }

    #[cfg(not(feature = "websocket"))]
    #[expect(clippy::unused_async, reason = "it is with WebSocket")]
    async fn upgrade<S>(&self, stream: S, _: Deadline) -> Result<Stream, Error>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        Ok(Stream::new(stream))
    }
}
