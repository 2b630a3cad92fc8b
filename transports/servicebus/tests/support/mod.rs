//! A server in the process of the tests.

#![allow(dead_code, reason = "each test binary uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a test")]

pub(crate) mod backend;
pub(crate) mod managed;
pub(crate) mod stub;

use std::net::SocketAddr;

use consign::{
    broker::{Broker, OnDisconnect, Quirks},
    time::{Clock, Moment, Timestamp},
};
use consign_server::{Builder, Server, http::HttpOptions};
use consign_servicebus::{Options, ServiceBus, TokenCredential};
use tokio::{io::DuplexStream, net::TcpListener, time::Instant};

/// UTC that begins at a fixed instant and follows tokio's time alone.
#[derive(Clone, Copy)]
pub(crate) struct TokioClock(Instant);

impl TokioClock {
    const START: Timestamp = Timestamp::from_millis(1_700_000_000_000);

    pub(crate) fn new() -> Self {
        Self(Instant::now())
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Moment {
        let elapsed = self.0.elapsed();
        Moment { elapsed, utc: Self::START.saturating_add(elapsed) }
    }
}

/// A server whose clients connect by streams in memory, so that time may be virtual.
#[derive(Clone)]
pub(crate) struct InMemory {
    pub(crate) server: Server,
    pub(crate) clock: TokioClock,
}

impl InMemory {
    /// The locks of a lost connection hold until they run out, as on the service.
    pub(crate) fn new() -> Self {
        Self::with(|_, builder| builder)
    }

    pub(crate) fn with(build: impl FnOnce(TokioClock, Builder) -> Builder) -> Self {
        let quirks = Quirks::default().on_disconnect(OnDisconnect::HoldUntilExpiry);
        let clock = TokioClock::new();
        let broker = Broker::with_quirks(clock, quirks);
        let builder = Server::builder().broker(broker).create_entities(false);
        Self { server: build(clock, builder).build(), clock }
    }

    pub(crate) fn broker(&self) -> &Broker {
        self.server.broker()
    }

    pub(crate) fn stream(&self) -> DuplexStream {
        let (client, server) = tokio::io::duplex(1 << 16);
        tokio::spawn(self.server.serve_stream(server));
        client
    }

    pub(crate) fn options(&self) -> Options {
        let this = self.clone();
        ServiceBus::options().clock(self.clock).dial_with(move |_, _| {
            let stream = this.stream();
            async move { Ok(stream) }
        })
    }

    pub(crate) async fn connect_with(&self, credential: impl TokenCredential) -> ServiceBus {
        // The streams have no TLS.
        self.options().plain().connect_with("localhost", credential).await.unwrap()
    }

    pub(crate) async fn connect(&self) -> ServiceBus {
        self.options().connect(ANY_KEY).await.unwrap()
    }
}

/// The connection string of a server that accepts any key. Its streams are not opened by the host.
pub(crate) const ANY_KEY: &str =
    "Endpoint=sb://localhost;SharedAccessKeyName=any;SharedAccessKey=any;UseDevelopmentEmulator=true";

/// Serves on loopback, in real time.
pub(crate) async fn listen(server: &Server) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = server.clone();
    tokio::spawn(async move { server.serve(listener).await });
    address
}

/// Serves AMQP and HTTP on loopback, in real time. Returns the ports.
pub(crate) async fn listen_with_http(server: &Server) -> (u16, u16) {
    let amqp = listen(server).await.port();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let http = listener.local_addr().unwrap().port();
    let server = server.clone();
    tokio::spawn(async move { server.serve_http(listener, HttpOptions::default()).await });
    (amqp, http)
}
