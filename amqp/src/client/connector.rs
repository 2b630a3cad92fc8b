#[cfg(feature = "tls")]
use std::sync::Arc;
use std::{io, net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, lookup_host},
    time::timeout,
};

#[cfg(feature = "websocket")]
use crate::stream::{self, WebSocketOptions};
use crate::stream::{Deadline, Error, ErrorKind, Stream};

/// Connects to a server over TCP, TLS (feature `tls`) and WebSocket (feature `websocket`).
///
/// ```no_run
/// use consign_amqp::client::{Connection, Connector, Options};
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let stream = Connector::new("broker.example", 5672).connect().await?;
/// let connection = Connection::open(stream, Options::new("example").hostname("broker.example")).await?;
/// # Ok(())
/// # }
/// ```
///
/// With TLS and WebSocket, as Azure Service Bus has it on port 443:
///
/// ```no_run
/// # #[cfg(all(feature = "tls", feature = "websocket"))]
/// # async fn run(config: std::sync::Arc<consign_amqp::rustls::ClientConfig>) -> Result<(), Box<dyn std::error::Error>> {
/// use consign_amqp::{client::Connector, stream::WebSocketOptions};
///
/// let connector = Connector::new("example.servicebus.windows.net", 443)
///     .tls(config)
///     .web_socket(WebSocketOptions::service_bus());
/// let stream = connector.connect().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Connector {
    host: String,
    port: u16,
    server_name: Option<String>,
    timeout: Duration,
    #[cfg(feature = "tls")]
    tls: Option<Arc<tokio_rustls::rustls::ClientConfig>>,
    #[cfg(feature = "websocket")]
    web_socket: Option<WebSocketOptions>,
}

impl Connector {
    /// Creates a connector to a host: a name or an address. An IPv6 address has no brackets.
    #[must_use]
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Self {
            host: host.into(),
            port,
            server_name: None,
            timeout: Duration::from_secs(30),
            #[cfg(feature = "tls")]
            tls: None,
            #[cfg(feature = "websocket")]
            web_socket: None,
        }
    }

    /// Sets the name that the certificate must have, and that the server is addressed by. The host by default.
    #[must_use]
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.server_name = Some(name.into());
        self
    }

    /// Sets how long the name resolution, the TCP connection and the handshakes may take together. 30 seconds by default.
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Requires TLS.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(mut self, config: Arc<tokio_rustls::rustls::ClientConfig>) -> Self {
        self.tls = Some(config);
        self
    }

    /// Uses WebSocket.
    #[cfg(feature = "websocket")]
    #[must_use]
    pub fn web_socket(mut self, options: WebSocketOptions) -> Self {
        self.web_socket = Some(options);
        self
    }

    /// Connects, with `TCP_NODELAY`, to the first address of the host that accepts, and does the handshakes.
    ///
    /// An address that does not answer gets an equal share of the time that is left for it and those after it.
    ///
    /// # Errors
    /// All of [`ErrorKind`].
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection.
    ///
    /// # Panics
    /// Panics if it is called outside of a Tokio runtime with I/O and time.
    pub async fn connect(&self) -> Result<Stream, Error> {
        let deadline = Deadline::new(self.timeout);
        let addresses = deadline.within("address", self.resolve()).await?;
        let stream = self.connect_any(&addresses, deadline).await?;
        self.secure(stream, deadline).await
    }

    /// Does the handshakes on a stream to the server that exists already, such as one through a proxy.
    ///
    /// # Errors
    /// [`ErrorKind::ServerName`], [`ErrorKind::Tls`], [`ErrorKind::WebSocket`], [`ErrorKind::TimedOut`].
    ///
    /// # Panics
    /// Panics if it is called outside of a Tokio runtime with time.
    pub async fn handshake<S>(&self, stream: S) -> Result<Stream, Error>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        self.secure(stream, Deadline::new(self.timeout)).await
    }

    async fn resolve(&self) -> Result<Vec<SocketAddr>, Error> {
        let addresses = lookup_host((self.host.as_str(), self.port)).await;
        let addresses: Vec<_> = addresses.map_err(|error| Error::new(ErrorKind::Resolve, error))?.collect();
        if addresses.is_empty() { Err(Error::without_source(ErrorKind::Resolve)) } else { Ok(addresses) }
    }

    async fn connect_any(&self, addresses: &[SocketAddr], deadline: Deadline) -> Result<TcpStream, Error> {
        let mut refused = None;
        for (address, left) in addresses.iter().zip((1..=addresses.len()).rev()) {
            let share = deadline.remaining() / u32::try_from(left).unwrap_or(u32::MAX);
            match timeout(share, connect(*address)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => refused = Some(error),
                Err(_) => {}
            }
        }
        Err(refused.map_or_else(
            || deadline.missed("TCP connection"),
            |error: io::Error| Error::new(ErrorKind::Connect, error),
        ))
    }

    #[cfg(feature = "tls")]
    async fn secure<S>(&self, stream: S, deadline: Deadline) -> Result<Stream, Error>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        use tokio_rustls::{TlsConnector, rustls::pki_types::ServerName};

        let Some(config) = &self.tls else { return self.upgrade(stream, false, deadline).await };
        let name = ServerName::try_from(self.tls_name().to_owned());
        let name = name.map_err(|error| Error::new(ErrorKind::ServerName, error))?;
        let handshake = async {
            let stream = TlsConnector::from(Arc::clone(config)).connect(name, stream).await;
            stream.map_err(|error| Error::new(ErrorKind::Tls, error))
        };
        let stream = deadline.within("TLS handshake", Box::pin(handshake)).await?;
        self.upgrade(stream, true, deadline).await
    }

    #[cfg(not(feature = "tls"))]
    async fn secure<S>(&self, stream: S, deadline: Deadline) -> Result<Stream, Error>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        self.upgrade(stream, false, deadline).await
    }

    #[cfg(feature = "websocket")]
    async fn upgrade<S>(&self, stream: S, is_tls: bool, deadline: Deadline) -> Result<Stream, Error>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let Some(options) = &self.web_socket else { return Ok(Stream::new(stream)) };
        let handshake = stream::connect(stream, is_tls, self.tls_name(), self.port, options);
        Ok(Stream::new(deadline.within("WebSocket handshake", Box::pin(handshake)).await?))
    }

    #[cfg(not(feature = "websocket"))]
    #[expect(clippy::unused_async, reason = "it is with WebSocket")]
    async fn upgrade<S>(&self, stream: S, _: bool, _: Deadline) -> Result<Stream, Error>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        Ok(Stream::new(stream))
    }

    #[cfg(any(feature = "tls", feature = "websocket"))]
    fn tls_name(&self) -> &str {
        self.server_name.as_deref().unwrap_or(&self.host)
    }
}

async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}
