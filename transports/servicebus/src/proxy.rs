//! A stream through a proxy of HTTP, by its method `CONNECT`.

use std::{fmt, io};

use base64::{Engine, engine::general_purpose::STANDARD};
use percent_encoding::percent_decode_str;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::{connection_string::authority, options::Io};

/// The expected form, for errors. They have no part of the text: it may have a password in it.
pub(crate) const FORM: &str = "expected a proxy as `http://user:password@host:port`, percent-encoded in UTF-8";

/// The most bytes of an answer.
const MAX_ANSWER: usize = 8 << 10;

/// `Debug` shows neither user nor password.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Proxy {
    pub(crate) host: String,
    pub(crate) port: u16,
    /// The value of `Proxy-Authorization`.
    authorization: Option<String>,
}

impl Proxy {
    /// Reads `http://user:password@host:port`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (scheme, rest) = text.split_once("://")?;
        if !scheme.eq_ignore_ascii_case("http") {
            return None;
        }
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (login, host) = match rest.rsplit_once('@') {
            Some((login, host)) => (Some(login), host),
            None => (None, rest),
        };
        let authorization = match login {
            None => None,
            Some(login) => {
                let (user, password) = login.split_once(':').unwrap_or((login, ""));
                let decoded = |text| percent_decode_str(text).decode_utf8().ok();
                let login = format!("{}:{}", decoded(user)?, decoded(password)?);
                Some(format!("Basic {}", STANDARD.encode(login)))
            }
        };
        let (host, port) = authority(host)?;
        Some(Self { host, port: port.unwrap_or(80), authorization })
    }

    /// Has the proxy connect to a host.
    pub(crate) async fn connect(&self, mut stream: Box<dyn Io>, host: &str, port: u16) -> io::Result<Box<dyn Io>> {
        let target = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        let mut request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n");
        if let Some(authorization) = &self.authorization {
            request.push_str("Proxy-Authorization: ");
            request.push_str(authorization);
            request.push_str("\r\n");
        }
        request.push_str("\r\n");
        stream.write_all(request.as_bytes()).await?;
        stream.flush().await?;
        let mut answer = Vec::new();
        // Byte by byte: what follows the answer is the server's.
        while !answer.ends_with(b"\r\n\r\n") {
            if answer.len() == MAX_ANSWER {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "the answer of the proxy is too long"));
            }
            answer.push(stream.read_u8().await?);
        }
        match status(&answer) {
            Some(200..=299) => Ok(stream),
            Some(status) => Err(io::Error::other(format!("the proxy refused with HTTP status {status}"))),
            None => Err(io::Error::new(io::ErrorKind::InvalidData, "the answer of the proxy is not HTTP")),
        }
    }
}

fn status(answer: &[u8]) -> Option<u16> {
    let line = std::str::from_utf8(answer.split(|byte| *byte == b'\r').next()?).ok()?;
    let (version, rest) = line.split_once(' ')?;
    version.starts_with("HTTP/1.").then(|| rest.split(' ').next()?.parse().ok())?
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy").field("host", &self.host).field("port", &self.port).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{DuplexStream, duplex};

    use super::*;

    #[test]
    fn a_proxy_has_a_login_and_shows_none() {
        let proxy = Proxy::parse("http://user:p%40ss@proxy.example:3128/").unwrap();
        assert_eq!((proxy.host.as_str(), proxy.port), ("proxy.example", 3_128));
        assert_eq!(proxy.authorization.as_deref(), Some("Basic dXNlcjpwQHNz"));
        assert!(!format!("{proxy:?}").contains("dXNl"));
        assert_eq!(Proxy::parse("http://proxy").unwrap().port, 80);
        for text in ["proxy", "https://proxy", "http://", "http://u:%ff@proxy", "http://proxy:0", "http://proxy/path"] {
            assert_eq!(Proxy::parse(text), None, "{text}");
        }
    }

    async fn answered(answer: &[u8]) -> (io::Result<Box<dyn Io>>, DuplexStream) {
        let (client, mut server) = duplex(1 << 14);
        let proxy = Proxy::parse("http://user:pass@proxy").unwrap();
        server.write_all(answer).await.unwrap();
        (proxy.connect(Box::new(client), "::1", 5_671).await, server)
    }

    #[tokio::test]
    async fn the_stream_begins_after_the_answer() {
        let (stream, mut server) = answered(b"HTTP/1.1 200 Connection established\r\nVia: x\r\n\r\nAMQP").await;
        let mut rest = [0; 4];
        stream.unwrap().read_exact(&mut rest).await.unwrap();
        assert_eq!(&rest, b"AMQP");
        let mut request = vec![0; 1 << 10];
        let read = server.read(&mut request).await.unwrap();
        let expected =
            "CONNECT [::1]:5671 HTTP/1.1\r\nHost: [::1]:5671\r\nProxy-Authorization: Basic dXNlcjpwYXNz\r\n\r\n";
        assert_eq!(std::str::from_utf8(&request[..read]).unwrap(), expected);
    }

    #[tokio::test]
    async fn a_refusal_has_its_status_and_other_bytes_are_refused() {
        let refused = |answer: Vec<u8>| async move { answered(&answer).await.0.err().unwrap().to_string() };
        let text = refused(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n".to_vec()).await;
        assert_eq!(text, "the proxy refused with HTTP status 407");
        assert_eq!(refused(b"AMQP\x03\x01\x00\x00\r\n\r\n".to_vec()).await, "the answer of the proxy is not HTTP");
        assert_eq!(refused(vec![b'x'; MAX_ANSWER + 1]).await, "the answer of the proxy is too long");
    }
}
