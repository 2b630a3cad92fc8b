//! Opens one connection to one server.

use std::sync::Arc;

#[cfg(feature = "websocket")]
use consign_amqp::stream::WebSocketOptions;
use consign_amqp::{
    client::{self, Connection, Connector},
    engine::{self, SaslCredentials},
    stream,
    value::{Map, Symbol, Value},
};
use consign_core::transport::ErrorKind;

use crate::{core::Core, error::Failure, options::Sasl, servers::Server};

pub(crate) async fn open(core: &Arc<Core>, server: &Server) -> Result<Connection, Failure> {
    let connector = Connector::new(server.host.as_str(), server.port).timeout(core.options.timeout);
    #[cfg(feature = "tls")]
    let connector = match &core.tls {
        Some(config) => connector.tls(Arc::clone(config)),
        None => connector,
    };
    #[cfg(feature = "websocket")]
    let connector = match &core.options.web_socket {
        // A server may send frames of any size in one message.
        Some(path) => connector.web_socket(WebSocketOptions::new(path).max_message_size(16 << 20)),
        None => connector,
    };
    let stream = connector.connect().await.map_err(|error| unreachable(&error))?;
    Ok(Connection::open(stream, options(core, server)).await?)
}

fn unreachable(error: &stream::Error) -> Failure {
    let kind = match error.kind() {
        stream::ErrorKind::TimedOut { .. } => ErrorKind::ServiceTimeout,
        stream::ErrorKind::ServerName => ErrorKind::InvalidArgument,
        _ => ErrorKind::CommunicationProblem,
    };
    let cause = std::error::Error::source(error).map(|source| format!(": {source}")).unwrap_or_default();
    Failure::new(kind, format!("{error}{cause}"))
}

/// Links of one connection, each in a session of its own. A server may allow fewer.
const MAX_LINKS: u16 = 5_000;

/// Far more than are held: one over it detaches the link, with all of its leases.
const MAX_UNSETTLED: usize = 1 << 20;

fn options(core: &Core, server: &Server) -> client::Options {
    let options = &core.options;
    let mut engine = engine::Options::default();
    engine.idle_timeout = Some(options.idle_timeout);
    engine.handshake_timeout = options.timeout;
    engine.max_message_size = options.max_message_size;
    engine.max_sessions = MAX_LINKS;
    engine.max_unsettled = MAX_UNSETTLED;
    engine.sasl_client = match (options.sasl, &core.servers.login) {
        (Sasl::None, _) => None,
        (Sasl::External, _) => Some(SaslCredentials {
            mechanism: Symbol::from_static("EXTERNAL"),
            initial_response: Some(Vec::new().into()),
            ..SaslCredentials::default()
        }),
        (Sasl::Login, Some((user, password))) => Some(SaslCredentials::plain(user, password)),
        (Sasl::Login, None) => Some(SaslCredentials::anonymous()),
    };
    let hostname = options.hostname.clone().unwrap_or_else(|| server.host.clone());
    let property = |name, value: &'static str| (Symbol::from_static(name).into(), Value::from(value));
    let properties: Map =
        [property("product", "consign"), property("version", env!("CARGO_PKG_VERSION"))].into_iter().collect();
    client::Options::new(core.container.as_str())
        .hostname(hostname)
        .properties(properties)
        .timeout(options.timeout)
        .engine(engine)
}
