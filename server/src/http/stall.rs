//! Closes a connection whose client does not read.

use std::{
    future::Future,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep},
};

use super::{connections::Place, web_socket::Upgrade};

/// A stream whose writes fail if none of them makes progress for a time, until it is upgraded: AMQP has limits of its own.
pub(super) struct Stall<S> {
    stream: S,
    upgrade: Upgrade,
    timeout: Duration,
    timer: Pin<Box<Sleep>>,
    /// Whether the last write had to wait.
    is_waiting: bool,
    place: Option<Place>,
}

impl<S> Stall<S> {
    pub(super) fn new(stream: S, timeout: Duration, upgrade: Upgrade) -> Self {
        Self { stream, upgrade, timeout, timer: Box::pin(sleep(timeout)), is_waiting: false, place: None }
    }

    /// Sets the place of the connection.
    pub(super) fn place(mut self, place: Place) -> Self {
        self.place = Some(place);
        self
    }

    fn limit<T>(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() || self.upgrade.is_taken() {
            self.is_waiting = false;
            return polled;
        }
        if !self.is_waiting {
            self.is_waiting = true;
            // An instant that cannot be represented is never reached.
            if let Some(at) = Instant::now().checked_add(self.timeout) {
                self.timer.as_mut().reset(at);
            }
        }
        ready!(self.timer.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Stall<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Stall<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.limit(cx, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.limit(cx, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(cx);
        if let (Poll::Ready(Ok(())), Some(place)) = (&polled, &self.place) {
            place.written();
        }
        self.limit(cx, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.limit(cx, polled)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_read_is_an_error_and_a_slow_one_is_not() {
        let timeout = Duration::from_secs(10);
        let (mut client, server) = tokio::io::duplex(16);
        let mut server = Stall::new(server, timeout, Upgrade::default());
        let writing = async { server.write_all(&[1; 64]).await };
        let reading = async {
            for _ in 0..4 {
                tokio::time::sleep(timeout * 9 / 10).await;
                client.read_exact(&mut [0; 16]).await.unwrap();
            }
        };
        let (written, ()) = tokio::join!(writing, reading);
        written.unwrap();
        let error = server.write_all(&[1; 64]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn the_answer_to_an_upgrade_is_written_within_the_limit() {
        let (_client, server) = tokio::io::duplex(16);
        let upgrade = Upgrade::default();
        let mut server = Stall::new(server, Duration::from_secs(10), upgrade.clone());
        upgrade.put(hyper::upgrade::on(axum::http::Request::new(())));
        let error = server.write_all(&[1; 64]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
