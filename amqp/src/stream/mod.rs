//! Streams below a connection, feature `tokio`: TCP, TLS (feature `tls`) and WebSocket (feature `websocket`).
//!
//! [`client::Connector`](crate::client::Connector) and [`server::Acceptor`](crate::server::Acceptor) make them.

mod deadline;
mod error;
#[cfg(feature = "websocket")]
mod web_socket;

use std::{
    fmt,
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

pub(crate) use self::deadline::Deadline;
pub use self::error::{Error, ErrorKind};
#[cfg(feature = "websocket")]
pub use self::web_socket::{Subprotocol, WebSocketOptions};
#[cfg(feature = "websocket")]
pub(crate) use self::web_socket::{accept, connect};

trait Io: AsyncRead + AsyncWrite + Send {}

impl<S: AsyncRead + AsyncWrite + Send> Io for S {}

/// A stream of bytes after its handshakes, for [`client::Connection::open`](crate::client::Connection::open) or
/// [`server::Connection::accept`](crate::server::Connection::accept).
pub struct Stream {
    io: Pin<Box<dyn Io>>,
}

impl Stream {
    pub(crate) fn new(io: impl AsyncRead + AsyncWrite + Send + 'static) -> Self {
        Self { io: Box::pin(io) }
    }
}

impl AsyncRead for Stream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.io.as_mut().poll_read(cx, buffer)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.io.as_mut().poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.io.as_mut().poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io.as_mut().poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io.as_mut().poll_shutdown(cx)
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").finish_non_exhaustive()
    }
}
