use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};

/// A stream that reads and writes random parts, and sometimes nothing.
pub(crate) struct Parts {
    stream: DuplexStream,
    random: fastrand::Rng,
}

impl Parts {
    pub(crate) fn new(stream: DuplexStream, seed: u64) -> Self {
        Self { stream, random: fastrand::Rng::with_seed(seed) }
    }

    /// The most to read or write now. Nothing means later.
    fn most(&mut self, of: usize, cx: &Context<'_>) -> usize {
        let most = match self.random.u8(..8) {
            0 => 0,
            1..4 => self.random.usize(1..=16),
            _ => usize::MAX,
        };
        if most == 0 {
            cx.waker().wake_by_ref();
        }
        most.min(of)
    }
}

impl AsyncRead for Parts {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let most = self.most(buffer.remaining(), cx);
        if most == 0 {
            return Poll::Pending;
        }
        read_part(&mut self.stream, most, cx, buffer)
    }
}

impl AsyncWrite for Parts {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let most = self.most(bytes.len(), cx);
        if most == 0 {
            return Poll::Pending;
        }
        Pin::new(&mut self.stream).poll_write(cx, bytes.get(..most).unwrap())
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.most(1, cx) == 0 {
            return Poll::Pending;
        }
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Reads at most so many bytes.
pub(crate) fn read_part(
    stream: &mut DuplexStream,
    most: usize,
    cx: &mut Context<'_>,
    buffer: &mut ReadBuf<'_>,
) -> Poll<io::Result<()>> {
    let mut part = buffer.take(most);
    let poll = Pin::new(stream).poll_read(cx, &mut part);
    let read = part.filled().to_vec();
    if poll.is_ready() {
        buffer.put_slice(&read);
    }
    poll
}
