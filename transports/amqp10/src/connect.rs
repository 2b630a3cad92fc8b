//! Opens one connection to one server.

use std::sync::Arc;

use consign_amqp::{
    client::{self, Connection},
    engine::{self, SaslCredentials},
    value::{Map, Symbol, Value},
};
use consign_core::transport::ErrorKind;

use crate::{core::Core, error::Failure, options::Sasl, servers::Server};

pub(crate) async fn open(core: &Arc<Core>, server: &Server) -> Result<Connection, Failure> {
    if core.servers.is_tls {
        return Err(Failure::new(ErrorKind::NotSupported, "this build has no TLS"));
    }
    Ok(Connection::connect((server.host.as_str(), server.port), options(core, server)).await?)
}

fn options(core: &Core, server: &Server) -> client::Options {
    let options = &core.options;
    let mut engine = engine::Options::default();
    engine.idle_timeout = Some(options.idle_timeout);
    engine.handshake_timeout = options.deadline;
    engine.max_message_size = options.max_message_size;
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
        .with_hostname(hostname)
        .with_properties(properties)
        .with_timeout(options.deadline)
        .with_engine(engine)
}
