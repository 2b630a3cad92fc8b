use std::{error, fmt, time::Duration};

/// Why there is no stream.
///
/// It has no password and no byte of the peer but for the status of an HTTP answer.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    source: Option<Box<dyn error::Error + Send + Sync>>,
}

/// The kinds of an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The host has no address.
    Resolve,
    /// No address of the host could be reached.
    Connect,
    /// The name of the server is neither a DNS name nor an IP address.
    ServerName,
    /// The TLS handshake failed: for example, the certificate is not trusted, or is for another name.
    Tls,
    /// The WebSocket handshake failed: for example, the path or the subprotocol was refused.
    WebSocket {
        /// The status of the HTTP answer that refused it.
        status: Option<u16>,
    },
    /// The handshakes took too long.
    TimedOut {
        /// The step that did not end.
        waiting_for: &'static str,
        /// The timeout of all steps.
        after: Duration,
    },
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, source: impl Into<Box<dyn error::Error + Send + Sync>>) -> Self {
        Self { kind, source: Some(source.into()) }
    }

    pub(crate) const fn without_source(kind: ErrorKind) -> Self {
        Self { kind, source: None }
    }

    /// Returns the kind.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            ErrorKind::Resolve => f.write_str("the host has no address"),
            ErrorKind::Connect => f.write_str("cannot connect to the host"),
            ErrorKind::ServerName => f.write_str("the name of the server is neither a DNS name nor an IP address"),
            ErrorKind::Tls => f.write_str("the TLS handshake failed"),
            ErrorKind::WebSocket { status: None } => f.write_str("the WebSocket handshake failed"),
            ErrorKind::WebSocket { status: Some(status) } => {
                write!(f, "the WebSocket handshake was refused with HTTP status {status}")
            }
            ErrorKind::TimedOut { waiting_for, after } => write!(f, "no {waiting_for} within {after:?}"),
        }
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}
