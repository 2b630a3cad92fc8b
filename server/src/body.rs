//! The body of a request of HTTP, in one buffer.

use axum::{
    BoxError,
    body::{Bytes, HttpBody},
};
use http_body_util::BodyExt;

/// Reserved for a body whose size is known, before any of it has arrived.
const RESERVED: usize = 64 << 10;

/// Why a body was not read.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// It is larger than the limit. The rest was not read.
    TooLarge,
    /// The connection or its framing has failed.
    Broken,
}

/// Reads a body of at most `limit` bytes.
///
/// Each frame is copied: a frame is a slice of what the connection has read, and keeps 8 KiB of it in memory even if it
/// has one byte.
pub(crate) async fn read<B>(mut body: B, limit: usize) -> Result<Bytes, ReadError>
where
    B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Unpin,
{
    let expected = body.size_hint().lower();
    if expected > limit as u64 {
        return Err(ReadError::TooLarge);
    }
    let expected = usize::try_from(expected).unwrap_or(limit);
    let mut read = Vec::with_capacity(expected.min(RESERVED));
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| ReadError::Broken)?;
        let Some(data) = frame.data_ref() else { continue };
        if data.len() > limit - read.len() {
            return Err(ReadError::TooLarge);
        }
        read.extend_from_slice(data);
    }
    // What was reserved and not used would stay in memory with a message.
    Ok(read.into_boxed_slice().into())
}

#[cfg(test)]
mod tests {
    use std::{
        pin::Pin,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
        task::{Context, Poll},
    };

    use axum::body::Body;
    use http_body_util::Full;
    use hyper::body::Frame;

    use super::*;

    /// What a connection has read, counted while it is in memory.
    struct Buffer([u8; 1], Arc<AtomicUsize>);

    impl AsRef<[u8]> for Buffer {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }

    impl Drop for Buffer {
        fn drop(&mut self) {
            self.1.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// A body in frames of one byte, and the most of them in memory at a time.
    struct Pieces {
        left: usize,
        kept: Arc<AtomicUsize>,
        most: Arc<AtomicUsize>,
    }

    impl HttpBody for Pieces {
        type Data = Bytes;
        type Error = BoxError;

        fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
            if self.left == 0 {
                return Poll::Ready(None);
            }
            self.left -= 1;
            self.most.fetch_max(self.kept.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
            let frame = Bytes::from_owner(Buffer(*b"a", Arc::clone(&self.kept)));
            Poll::Ready(Some(Ok(Frame::data(frame))))
        }
    }

    /// Attacks: 100.
    #[tokio::test]
    async fn a_body_in_pieces_takes_no_more_memory_than_its_bytes() {
        let most = Arc::new(AtomicUsize::new(0));
        let body = Pieces { left: 50_000, kept: Arc::default(), most: Arc::clone(&most) };
        assert_eq!(read(body, 50_000).await.unwrap(), vec![b'a'; 50_000]);
        assert_eq!(most.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn a_body_over_the_limit_is_refused_and_its_rest_not_read() {
        let body = Pieces { left: 11, kept: Arc::default(), most: Arc::default() };
        assert!(matches!(read(body, 10).await, Err(ReadError::TooLarge)));
        assert!(matches!(read(Full::new(Bytes::from_static(b"12345678901")), 10).await, Err(ReadError::TooLarge)));
        assert_eq!(read(Body::from("1234567890"), 10).await.unwrap(), "1234567890");
        assert_eq!(read(Body::empty(), 0).await.unwrap(), "");
    }
}
