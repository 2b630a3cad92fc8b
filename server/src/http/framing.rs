//! Finds requests whose length is given twice: by `Content-Length` and by `Transfer-Encoding`.
//!
//! hyper removes the `Content-Length` of such a request before a handler sees it (RFC 9112, section 6.1, permits both that and a
//! refusal). An intermediary that reads the length instead disagrees about where the next request begins. So the bytes of each head
//! are read here too, as hyper receives them, and nothing of them is kept but the beginning of one line.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::web_socket::Upgrade;

/// What is kept of a line: the longest name with the digits of a length, and spaces.
const LINE: usize = 64;

/// How the first request with a `Transfer-Encoding` gives its length. It is the last request of its connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Framing(Arc<AtomicU8>);

impl Framing {
    const CHUNKED: u8 = 1;
    const TWICE: u8 = 2;

    /// Returns whether a request with a `Transfer-Encoding` had no `Content-Length`. False too if its head was not found.
    pub(super) fn is_chunked_alone(&self) -> bool {
        self.0.load(Ordering::Relaxed) == Self::CHUNKED
    }
}

/// A stream that looks at the heads of the requests that are read from it.
pub(super) struct Framed<S> {
    stream: S,
    heads: Heads,
    upgrade: Upgrade,
}

impl<S> Framed<S> {
    pub(super) fn new(stream: S, framing: Framing, upgrade: Upgrade) -> Self {
        Self { stream, heads: Heads::new(framing), upgrade }
    }
}

/// The place in the requests of a connection.
struct Heads {
    place: Place,
    /// The first bytes of the current line.
    line: [u8; LINE],
    /// The length of the current line, without its end.
    length: usize,
    framing: Framing,
}

#[derive(Clone, Copy)]
enum Place {
    /// In the request line, or in the empty lines before it.
    RequestLine,
    Headers(Head),
    /// So many bytes of a body are left.
    Body(u64),
    /// No more requests are looked at: the connection ends after this one.
    End,
}

/// The headers of a request so far.
#[derive(Clone, Copy, Default)]
struct Head {
    content_length: Option<u64>,
    is_chunked: bool,
}

impl Heads {
    fn new(framing: Framing) -> Self {
        Self { place: Place::RequestLine, line: [0; LINE], length: 0, framing }
    }

    fn read(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            match self.place {
                Place::End => return,
                Place::Body(left) => {
                    let count = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
                    bytes = &bytes[count..];
                    self.place = match left - count as u64 {
                        0 => Place::RequestLine,
                        left => Place::Body(left),
                    };
                }
                Place::RequestLine | Place::Headers(_) => {
                    let end = bytes.iter().position(|byte| *byte == b'\n');
                    self.extend(&bytes[..end.unwrap_or(bytes.len())]);
                    let Some(end) = end else { return };
                    bytes = &bytes[end + 1..];
                    self.line_ended();
                    self.length = 0;
                }
            }
        }
    }

    fn extend(&mut self, bytes: &[u8]) {
        if let Some(free) = self.line.get_mut(self.length..) {
            let count = free.len().min(bytes.len());
            free[..count].copy_from_slice(&bytes[..count]);
        }
        self.length = self.length.saturating_add(bytes.len());
    }

    fn line_ended(&mut self) {
        let is_whole = self.length <= LINE;
        let line = &self.line[..self.length.min(LINE)];
        let line = if is_whole { line.strip_suffix(b"\r").unwrap_or(line) } else { line };
        self.place = match self.place {
            Place::RequestLine if line.is_empty() => Place::RequestLine,
            Place::RequestLine => Place::Headers(Head::default()),
            Place::Headers(head) if line.is_empty() => self.head_ended(head),
            Place::Headers(mut head) => {
                let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
                let (name, value) = line.split_at(colon);
                if name.eq_ignore_ascii_case(b"transfer-encoding") {
                    head.is_chunked = true;
                } else if name.eq_ignore_ascii_case(b"content-length") {
                    // Of several that differ, or of one that is not a number, hyper refuses the request.
                    let value = value.get(1..).filter(|_| is_whole).unwrap_or_default().trim_ascii();
                    let digits = std::str::from_utf8(value).ok().filter(|_| value.iter().all(u8::is_ascii_digit));
                    head.content_length = Some(digits.and_then(|digits| digits.parse().ok()).unwrap_or(u64::MAX));
                }
                Place::Headers(head)
            }
            place @ (Place::Body(_) | Place::End) => place,
        };
    }

    fn head_ended(&mut self, head: Head) -> Place {
        if head.is_chunked {
            let framing = if head.content_length.is_some() { Framing::TWICE } else { Framing::CHUNKED };
            self.framing.0.store(framing, Ordering::Relaxed);
            return Place::End;
        }
        match head.content_length {
            None | Some(0) => Place::RequestLine,
            Some(length) => Place::Body(length),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Framed<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(cx, buffer))?;
        if !matches!(this.heads.place, Place::End) {
            if this.upgrade.is_upgraded() {
                this.heads.place = Place::End;
            }
            this.heads.read(&buffer.filled()[before..]);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Framed<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The verdict on these bytes, which arrive in parts of this size.
    fn read(bytes: &str, part: usize) -> u8 {
        let framing = Framing::default();
        let mut heads = Heads::new(framing.clone());
        for part in bytes.as_bytes().chunks(part) {
            heads.read(part);
        }
        framing.0.load(Ordering::Relaxed)
    }

    #[test]
    fn a_length_beside_an_encoding_is_found_in_every_split() {
        let whole = "POST /q HTTP/1.1\r\nContent-Length: 5\r\n\r\n12345";
        let chunks = "\r\n1\r\na\r\n0\r\n\r\n";
        let long = "x".repeat(200);
        let cases = [
            (format!("POST /q HTTP/1.1\r\nTransfer-Encoding: chunked\r\n{chunks}"), Framing::CHUNKED),
            (format!("POST /q HTTP/1.1\nTransfer-Encoding: chunked\n{chunks}"), Framing::CHUNKED),
            (
                format!("POST /q HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n{chunks}"),
                Framing::TWICE,
            ),
            (format!("POST /q HTTP/1.1\r\ncontent-length:5\r\nTRANSFER-ENCODING:chunked\r\n{chunks}"), Framing::TWICE),
            (format!("POST /q HTTP/1.1\nContent-Length: 5\na: {long}\nTransfer-Encoding: x\n{chunks}"), Framing::TWICE),
            (format!("{whole}\r\n{whole}POST /q HTTP/1.1\r\nTransfer-Encoding: chunked\r\n{chunks}"), Framing::CHUNKED),
            (
                format!("{whole}POST /{long} HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n{chunks}"),
                Framing::TWICE,
            ),
            // A body is not a head, and neither is a request line or the value of a header.
            ("POST /q HTTP/1.1\r\nContent-Length: 36\r\n\r\n\r\nTransfer-Encoding: a\r\n\r\n\r\n\r\n".to_owned(), 0),
            (format!("{whole}Transfer-Encoding: a HTTP/1.1\r\nContent-Length: 1\r\n\r\n1"), 0),
            (format!("POST /q HTTP/1.1\r\na: Transfer-Encoding: chunked\r\nX-Transfer-Encoding: a\r\n{chunks}"), 0),
            // A length that is not a number has no end.
            (format!("POST /q HTTP/1.1\r\nContent-Length: +5\r\n{chunks}{whole}"), 0),
            (format!("POST /q HTTP/1.1\r\nContent-Length: {}5\r\n{chunks}{whole}", " ".repeat(70)), 0),
        ];
        for (bytes, expected) in cases {
            for part in 1..=bytes.len() {
                assert_eq!(read(&bytes, part), expected, "{part}: {bytes:?}");
            }
        }
    }
}
