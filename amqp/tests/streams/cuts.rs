//! Streams that are lost after so many bytes of either direction, handshakes included.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};

use super::{
    Node, client_of_web_socket, exchange,
    part::{Parts, read_part},
    serve, server_of_web_socket, tls,
};

/// A stream that fails when so many bytes were read and written.
struct Cut {
    stream: DuplexStream,
    left: usize,
}

impl Cut {
    fn most(&self, of: usize) -> io::Result<usize> {
        if self.left == 0 { Err(io::ErrorKind::ConnectionReset.into()) } else { Ok(self.left.min(of)) }
    }
}

impl AsyncRead for Cut {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let most = self.most(buffer.remaining())?;
        let before = buffer.filled().len();
        let poll = read_part(&mut self.stream, most, cx, buffer);
        self.left -= buffer.filled().len() - before;
        poll
    }
}

impl AsyncWrite for Cut {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let most = self.most(bytes.len())?;
        let poll = Pin::new(&mut self.stream).poll_write(cx, bytes.get(..most).unwrap());
        if let Poll::Ready(Ok(count)) = poll {
            self.left -= count;
        }
        poll
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Ends in an hour of the paused clock at the latest.
async fn in_time<T>(what: &str, future: impl Future<Output = T>) -> T {
    let outcome = tokio::time::timeout(Duration::from_secs(3_600), future).await;
    outcome.unwrap_or_else(|_| panic!("a call hangs {what}"))
}

/// Rules.
#[tokio::test(start_paused = true)]
async fn a_web_socket_that_is_lost_at_any_byte_ends_every_call() {
    let mut whole = 0;
    // The first bytes one by one, and then the messages and the close.
    let mut left = 0;
    while whole < 2 {
        let node = Node::new();
        let (near, far) = tokio::io::duplex(1_024);
        serve(&node, server_of_web_socket(), far);
        let what = format!("when the stream fails after {left} bytes");
        let outcome = in_time(&what, async {
            let Ok(stream) = client_of_web_socket().handshake(Cut { stream: near, left }).await else { return false };
            exchange(stream).await.is_ok()
        });
        whole += u32::from(outcome.await);
        left += if left < 3_000 { 1 } else { 997 };
    }
    assert!(left > 200_000, "the exchange has passed with {left} bytes");
}

/// Rules.
#[tokio::test(start_paused = true)]
async fn any_splitting_of_the_bytes_below_web_socket_passes() {
    for seed in seeds(60) {
        let node = Node::new();
        let (near, far) = tokio::io::duplex(777);
        serve(&node, server_of_web_socket(), Parts::new(far, seed));
        let stream = client_of_web_socket().handshake(Parts::new(near, !seed)).await;
        in_time(&replay(seed), exchange(stream.unwrap()))
            .await
            .unwrap_or_else(|error| panic!("{}: {error}", replay(seed)));
    }
}

/// Rules.
#[tokio::test(start_paused = true)]
async fn any_splitting_of_the_bytes_below_tls_passes() {
    let (server, client) = tls::configurations("broker.test");
    for seed in seeds(10) {
        let node = Node::new();
        let (near, far) = tokio::io::duplex(777);
        serve(&node, server_of_web_socket().tls(server.clone()), Parts::new(far, seed));
        let connector = client_of_web_socket().tls(client.clone());
        let stream = connector.handshake(Parts::new(near, !seed)).await;
        in_time(&replay(seed), exchange(stream.unwrap()))
            .await
            .unwrap_or_else(|error| panic!("{}: {error}", replay(seed)));
    }
}

fn seeds(count: u64) -> impl Iterator<Item = u64> {
    let first = std::env::var("CONSIGN_SEED").ok().map(|seed| seed.parse().unwrap());
    let count = if first.is_some() { 1 } else { count };
    let first = first.unwrap_or_else(|| fastrand::u64(..));
    (0..count).map(move |index| first.wrapping_add(index))
}

fn replay(seed: u64) -> String {
    format!("with CONSIGN_SEED={seed} cargo test -p consign-amqp --all-features --test streams")
}
