//! Connections that are lost after so many bytes of either direction.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use consign_amqp::client::{Connection, Error, Options};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};

use super::{Node, accepted, message, receiver, sender, stream};

/// A stream that fails when so many bytes were read and written.
struct Cut {
    stream: DuplexStream,
    left: usize,
}

impl Cut {
    fn take(&mut self, bytes: usize) -> io::Result<usize> {
        let count = bytes.min(self.left);
        self.left -= count;
        if count == 0 && bytes > 0 { Err(io::ErrorKind::ConnectionReset.into()) } else { Ok(count) }
    }
}

impl AsyncRead for Cut {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.left == 0 {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        let most = self.left.min(buffer.remaining());
        let mut part = buffer.take(most);
        let poll = Pin::new(&mut self.stream).poll_read(cx, &mut part);
        let read = part.filled().to_vec();
        if poll.is_ready() {
            self.take(read.len())?;
            buffer.put_slice(&read);
        }
        poll
    }
}

impl AsyncWrite for Cut {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let most = self.left.min(bytes.len());
        if most == 0 {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        let poll = Pin::new(&mut self.stream).poll_write(cx, bytes.get(..most).unwrap_or_default());
        if let Poll::Ready(Ok(count)) = poll {
            self.take(count)?;
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

/// What a client was told.
#[derive(Default)]
struct Told {
    sent: u32,
    settled: u32,
}

async fn work(stream: Cut, told: &mut Told) -> Result<(), Error> {
    let connection = Connection::open(stream, Options::new("client")).await?;
    let session = connection.begin().await?;
    let sender = session.attach_sender("s", "orders").await?;
    let mut receiver = session.attach_receiver("r", "orders").await?;
    receiver.set_credit(2)?;
    for _ in 0..2 {
        assert_eq!(sender.send(message("work")).await?, Some(accepted()));
        told.sent += 1;
    }
    let delivery = receiver.recv().await?;
    receiver.settler().settle_confirmed(delivery.id, &accepted()).await?;
    told.settled += 1;
    connection.close().await
}

/// Rules: A-64.
#[tokio::test(start_paused = true)]
async fn a_connection_that_is_lost_at_any_byte_ends_every_call_and_loses_nothing() {
    let mut whole = 0;
    for left in 0.. {
        let node = Node::new();
        let mut told = Told::default();
        let cut = Cut { stream: stream(&node, 64), left };
        let outcome = tokio::time::timeout(Duration::from_secs(3_600), work(cut, &mut told)).await;
        let outcome = outcome.unwrap_or_else(|_| panic!("a call hangs when the stream fails after {left} bytes"));
        whole += u32::from(outcome.is_ok());
        if let Err(error) = outcome {
            assert!(matches!(error, Error::Closed(_)), "after {left} bytes: {error:?}");
        }
        // What is there at the end: all that the client knows to be sent, but for what it has settled.
        let connection = super::connect(&node).await;
        let session = connection.begin().await.unwrap();
        sender(&session, "orders").await.send(message("last")).await.unwrap();
        let mut receiver = receiver(&session, "orders").await;
        receiver.set_automatic_credit(10).unwrap();
        let mut found = 0;
        loop {
            let delivery = receiver.recv().await.unwrap();
            receiver.settle([delivery.id], &accepted()).unwrap();
            if delivery.payload.into_bytes() == message("last") {
                break;
            }
            found += 1;
        }
        assert!(found + 1 >= told.sent && found + told.settled <= 2, "after {left} bytes: {found} messages");
        if told.settled == 0 && told.sent == 2 {
            assert!(found >= 1, "after {left} bytes");
        }
        if whole == 2 {
            return;
        }
    }
}
