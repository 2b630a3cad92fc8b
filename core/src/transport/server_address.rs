use std::fmt;

/// The server that a client is connected to, for telemetry.
///
/// ```
/// use consign::transport::ServerAddress;
///
/// let server = ServerAddress::new("mq.example.com").with_port(5672);
/// assert_eq!(server.to_string(), "mq.example.com:5672");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ServerAddress {
    /// The host name or IP address, without brackets, or the path of a Unix domain socket.
    pub host: Box<str>,
    /// The port. `None` for a Unix domain socket.
    pub port: Option<u16>,
}

impl ServerAddress {
    /// The server with this host name, IP address or path of a Unix domain socket.
    #[must_use]
    pub fn new(host: impl Into<Box<str>>) -> Self {
        Self { host: host.into(), port: None }
    }

    /// Adds the port.
    #[must_use]
    pub fn with_port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) if self.host.contains(':') => write!(f, "[{}]:{port}", self.host),
            Some(port) => write!(f, "{}:{port}", self.host),
            None => f.write_str(&self.host),
        }
    }
}
