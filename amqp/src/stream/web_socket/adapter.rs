use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes, BytesMut};
use futures_util::{Sink, Stream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Error, Message,
        error::ProtocolError,
        protocol::{CloseFrame, frame::coding::CloseCode},
    },
};

use super::options::WRITE;

/// Reads and writes bytes in binary messages. The ends of messages mean nothing.
pub(crate) struct WebSocket<S> {
    stream: WebSocketStream<S>,
    /// What is left of the message that was read last.
    received: Bytes,
    /// Whether the peer has closed.
    ended: bool,
    /// Whether this end has closed.
    closing: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> WebSocket<S> {
    pub(super) fn new(stream: WebSocketStream<S>) -> Self {
        Self { stream, received: Bytes::new(), ended: false, closing: false }
    }

    /// Waits for bytes. There are none at the end.
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.received.is_empty() && !self.ended {
            match ready!(Pin::new(&mut self.stream).poll_next(cx)) {
                Some(Ok(Message::Binary(bytes))) => self.received = bytes,
                // The answer to a ping is written by the next poll.
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
                Some(Ok(Message::Text(_))) => {
                    self.refuse(CloseCode::Unsupported, cx);
                    let error =
                        io::Error::new(io::ErrorKind::InvalidData, "a text message instead of a binary message");
                    return Poll::Ready(Err(error));
                }
                Some(Ok(Message::Close(_))) | None => {
                    self.ended = true;
                    // Writes the answer. The shutdown waits for it.
                    let _ = Pin::new(&mut self.stream).poll_flush(cx);
                }
                Some(Err(error)) => {
                    if let Some(code) = close_code(&error) {
                        self.refuse(code, cx);
                    }
                    return Poll::Ready(Err(to_io(error)));
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Closes with a code, and reads nothing more.
    fn refuse(&mut self, code: CloseCode, cx: &mut Context<'_>) {
        self.ended = true;
        if !self.closing {
            self.closing = true;
            let close = Message::Close(Some(CloseFrame { code, reason: "".into() }));
            // A stream that cannot be written has no use for a code. The shutdown waits for the rest of it.
            let _ = Pin::new(&mut self.stream).start_send(close);
            let _ = Pin::new(&mut self.stream).poll_flush(cx);
        }
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, bytes: impl FnOnce() -> Bytes) -> Poll<io::Result<usize>> {
        // Nothing is kept but the message before.
        ready!(Pin::new(&mut self.stream).poll_ready(cx)).map_err(to_io)?;
        let bytes = bytes();
        let count = bytes.len();
        if count > 0 {
            Pin::new(&mut self.stream).start_send(Message::Binary(bytes)).map_err(to_io)?;
        }
        Poll::Ready(Ok(count))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for WebSocket<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_receive(cx))?;
        let count = self.received.len().min(buffer.remaining());
        buffer.put_slice(self.received.get(..count).unwrap_or_default());
        self.received.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for WebSocket<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let part = bytes.get(..WRITE).unwrap_or(bytes);
        self.poll_send(cx, || Bytes::copy_from_slice(part))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_send(cx, || {
            let size: usize = slices.iter().map(|slice| slice.len()).sum();
            let mut message = BytesMut::with_capacity(size.min(WRITE));
            for slice in slices {
                let left = WRITE - message.len();
                message.extend_from_slice(slice.get(..left).unwrap_or(slice));
            }
            message.freeze()
        })
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx).map_err(to_io)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.closing = true;
        Pin::new(&mut self.stream).poll_close(cx).map_err(to_io)
    }
}

/// The code of the close that answers an error.
const fn close_code(error: &Error) -> Option<CloseCode> {
    match error {
        Error::Capacity(_) => Some(CloseCode::Size),
        Error::Utf8(_) => Some(CloseCode::Unsupported),
        Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => None,
        Error::Protocol(_) => Some(CloseCode::Protocol),
        _ => None,
    }
}

fn to_io(error: Error) -> io::Error {
    let kind = match error {
        Error::Io(error) => return error,
        Error::ConnectionClosed | Error::AlreadyClosed | Error::Protocol(ProtocolError::SendAfterClosing) => {
            io::ErrorKind::BrokenPipe
        }
        Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => io::ErrorKind::UnexpectedEof,
        _ => io::ErrorKind::InvalidData,
    };
    io::Error::new(kind, error)
}
