//! Opens one connection.

use std::io;
#[cfg(feature = "tls")]
use std::sync::Arc;

#[cfg(feature = "websocket")]
use consign_amqp::stream::WebSocketOptions;
use consign_amqp::{
    client::{self, Connection, Connector},
    engine::{self, SaslCredentials},
    stream::{self, Stream},
    value::{Map, Symbol, Value},
};
use consign_core::transport::ErrorKind;

use crate::{core::Core, endpoint::Endpoint, error::Failure, options::Io};

pub(crate) async fn open(core: &Core) -> Result<Connection, Failure> {
    let stream = stream(core, &core.endpoint, core.options.web_socket).await?;
    Ok(Connection::open(stream, options(core)).await?)
}

/// Opens a stream to a port of the server, with its handshakes.
pub(crate) async fn stream(core: &Core, endpoint: &Endpoint, web_socket: bool) -> Result<Stream, Failure> {
    let connector = Connector::new(endpoint.host.as_str(), endpoint.port).timeout(core.options.timeout);
    #[cfg(feature = "tls")]
    let connector = match &core.tls {
        Some(config) => connector.tls(Arc::clone(config)),
        None => connector,
    };
    #[cfg(feature = "websocket")]
    let connector = if web_socket {
        // A server may send frames of any size in one message.
        connector.web_socket(WebSocketOptions::service_bus().max_message_size(16 << 20))
    } else {
        connector
    };
    #[cfg(not(feature = "websocket"))]
    let _ = web_socket;
    let stream = if core.options.dial.is_none() && core.proxy.is_none() {
        connector.connect().await
    } else {
        let after = core.options.timeout;
        let late = |_| {
            Failure::new(ErrorKind::ServiceTimeout, format!("cannot connect to {endpoint}: no stream within {after:?}"))
        };
        let dialed = tokio::time::timeout(after, dial(core, endpoint)).await.map_err(late)?;
        let failed = |error: io::Error| {
            let is_late = error.kind() == io::ErrorKind::TimedOut;
            let kind = if is_late { ErrorKind::ServiceTimeout } else { ErrorKind::CommunicationProblem };
            Failure::new(kind, format!("cannot connect to {endpoint}: {error}"))
        };
        connector.handshake(dialed.map_err(failed)?).await
    };
    stream.map_err(|error| unreachable(endpoint, &error))
}

/// Opens a stream as the options have it, and through the proxy if there is one.
async fn dial(core: &Core, endpoint: &Endpoint) -> io::Result<Box<dyn Io>> {
    let Endpoint { host, port, .. } = endpoint;
    let (to, at) = core.proxy.as_ref().map_or((host, *port), |proxy| (&proxy.host, proxy.port));
    let stream: Box<dyn Io> = if let Some(dial) = &core.options.dial {
        dial(to.clone(), at).await?
    } else {
        // Each address of the proxy has a share of the time.
        let connector = Connector::new(to.as_str(), at).timeout(core.options.timeout);
        Box::new(connector.connect().await.map_err(|error| {
            let kind = match error.kind() {
                stream::ErrorKind::TimedOut { .. } => io::ErrorKind::TimedOut,
                _ => io::ErrorKind::Other,
            };
            io::Error::new(kind, text(&error))
        })?)
    };
    match &core.proxy {
        Some(proxy) => proxy.connect(stream, host, *port).await,
        None => Ok(stream),
    }
}

/// What a TLS error of a server on this machine may mean.
const NO_TLS: &str = "; for a server without TLS, such as one for development, add `emulator=true` to the URL, or \
     `UseDevelopmentEmulator=true` to the connection string";

fn unreachable(endpoint: &Endpoint, error: &stream::Error) -> Failure {
    let kind = match error.kind() {
        stream::ErrorKind::TimedOut { .. } => ErrorKind::ServiceTimeout,
        stream::ErrorKind::ServerName => ErrorKind::InvalidArgument,
        _ => ErrorKind::CommunicationProblem,
    };
    let hint = if error.kind() == stream::ErrorKind::Tls && endpoint.is_loopback() { NO_TLS } else { "" };
    Failure::new(kind, format!("cannot connect to {endpoint}: {}{hint}", text(error)))
}

fn text(error: &stream::Error) -> String {
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

/// Links of one connection, each in a session of its own. A server may allow fewer.
const MAX_LINKS: u16 = 5_000;

/// Far more than are held: one over it detaches the link.
const MAX_UNSETTLED: usize = 1 << 20;

fn options(core: &Core) -> client::Options {
    let options = &core.options;
    let mut engine = engine::Options::default();
    engine.idle_timeout = Some(options.idle_timeout);
    engine.handshake_timeout = options.timeout;
    engine.max_message_size = options.max_message_size;
    // Each link has a session.
    engine.max_sessions = MAX_LINKS;
    engine.max_unsettled = MAX_UNSETTLED;
    // Tokens authorize each entity.
    engine.sasl_client = Some(SaslCredentials::anonymous());
    let property = |name, value: &'static str| (Symbol::from_static(name).into(), Value::from(value));
    let properties: Map =
        [property("product", "consign"), property("version", env!("CARGO_PKG_VERSION"))].into_iter().collect();
    client::Options::new(core.container.as_str())
        .hostname(core.endpoint.host.as_str())
        .properties(properties)
        .timeout(options.timeout)
        .engine(engine)
}
