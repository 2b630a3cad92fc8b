//! A server on a port of loopback, and a client that writes bytes.

use std::{fmt::Write, net::SocketAddr};

use consign_broker::Broker;
use consign_core::administration::QueueSettings;
use consign_server::{Builder, Server, http::HttpOptions};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

pub(crate) struct Harness {
    pub(crate) server: Server,
    pub(crate) address: SocketAddr,
}

/// A response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| &**value)
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// Reads a response whose connection was closed after it.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
        let head = std::str::from_utf8(&bytes[..end]).ok()?;
        let mut lines = head.split("\r\n");
        let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
        let header = |line: &str| line.split_once(": ").map(|(name, value)| (name.to_owned(), value.to_owned()));
        let headers = lines.filter_map(header).collect();
        let mut answer = Self { status, headers, body: bytes[end + 4..].to_vec() };
        if answer.header("transfer-encoding") == Some("chunked") {
            answer.body = joined(&answer.body)?;
        }
        Some(answer)
    }
}

/// The bytes of a body in chunks.
fn joined(mut chunks: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = chunks.windows(2).position(|window| window == b"\r\n")?;
        let size = usize::from_str_radix(std::str::from_utf8(&chunks[..line]).ok()?, 16).ok()?;
        if size == 0 {
            return Some(body);
        }
        let rest = &chunks[line + 2..];
        body.extend_from_slice(rest.get(..size)?);
        chunks = rest.get(size + 2..)?;
    }
}

impl Harness {
    /// A server with the queue `q`, which creates no entities.
    pub(crate) async fn new() -> Self {
        let harness = Self::with(|builder| builder.create_entities(false)).await;
        harness.broker().create_queue("q", QueueSettings::default()).unwrap();
        harness
    }

    pub(crate) async fn with(build: impl FnOnce(Builder) -> Builder) -> Self {
        Self::with_options(build, HttpOptions::default()).await
    }

    pub(crate) async fn with_options(build: impl FnOnce(Builder) -> Builder, options: HttpOptions) -> Self {
        let server = build(Server::builder()).build();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = server.clone();
        tokio::spawn(async move { serving.serve_http(listener, options).await });
        Self { server, address }
    }

    pub(crate) fn broker(&self) -> &Broker {
        self.server.broker()
    }

    /// Writes bytes, and reads until the connection is closed.
    pub(crate) async fn raw(&self, bytes: &[u8], ends: bool) -> Vec<u8> {
        self.write(&[bytes], ends).await
    }

    /// Writes bytes that arrive in these parts, and reads until the connection is closed.
    pub(crate) async fn parts(&self, parts: &[&[u8]]) -> Vec<u8> {
        self.write(parts, false).await
    }

    async fn write(&self, parts: &[&[u8]], ends: bool) -> Vec<u8> {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        for part in parts {
            // The server may have closed before all of it was written.
            let _ = stream.write_all(part).await;
            // The server runs in this thread, and reads what there is.
            for _ in 0..4 {
                tokio::task::yield_now().await;
            }
        }
        if ends {
            let _ = stream.shutdown().await;
        }
        let mut answer = Vec::new();
        let mut buffer = [0; 4_096];
        // A reset after the answer is the end of it.
        while let Ok(count @ 1..) = stream.read(&mut buffer).await {
            answer.extend_from_slice(&buffer[..count]);
        }
        answer
    }

    pub(crate) async fn call(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl AsRef<[u8]>,
    ) -> Answer {
        let answer = self.raw(&request(method, path, headers, body), false).await;
        Answer::read(&answer).unwrap()
    }

    /// Calls without a body, under another name of the server.
    pub(crate) async fn call_at(&self, host: &str, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
        let request = String::from_utf8(request(method, path, headers, "")).unwrap();
        let request = request.replacen("localhost:5300", host, 1);
        let answer = self.raw(request.as_bytes(), false).await;
        Answer::read(&answer).unwrap_or_else(|| panic!("{method} {path}: {}", String::from_utf8_lossy(&answer)))
    }

    pub(crate) async fn send(&self, path: &str, body: &str) {
        let answer = self.call("POST", &format!("/{path}/messages"), &[], body).await;
        assert_eq!(answer.status, 201, "{answer:?}");
    }

    /// Receives and deletes.
    pub(crate) async fn receive(&self, path: &str) -> Answer {
        self.call("DELETE", &format!("/{path}/messages/head?timeout=0"), &[], "").await
    }
}

/// A request after which the connection is closed.
pub(crate) fn request(method: &str, path: &str, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let mut request = format!("{method} {path} HTTP/1.1\r\nHost: localhost:5300\r\nConnection: close\r\n");
    for (name, value) in headers {
        write!(request, "{name}: {value}\r\n").unwrap();
    }
    write!(request, "Content-Length: {}\r\n\r\n", body.len()).unwrap();
    [request.as_bytes(), body].concat()
}
