use std::time::Duration;

use crate::{
    engine,
    types::Open,
    value::{Map, Str},
};

/// How a client opens a connection, and how long its calls may take.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The name of the client's container.
    pub container_id: Str,
    /// The host that the client has dialled, for servers with several. None by default.
    pub hostname: Option<Str>,
    /// Properties of the connection, such as `product` and `version`. Keys are symbols. None by default.
    pub properties: Option<Map>,
    /// How long a call may take. 30 seconds by default.
    pub timeout: Duration,
    /// Limits, timeouts and credentials of the protocol. `sasl_client` is the credentials of the client.
    ///
    /// The client answers no SASL challenge: one closes the connection with
    /// [`Violation::SaslChallenge`](engine::Violation::SaslChallenge). A mechanism with challenges needs the engine itself.
    pub engine: engine::Options,
}

impl Options {
    /// Creates options with the name of the client's container.
    #[must_use]
    pub fn new(container_id: impl Into<Str>) -> Self {
        Self {
            container_id: container_id.into(),
            hostname: None,
            properties: None,
            timeout: Duration::from_secs(30),
            engine: engine::Options::default(),
        }
    }

    /// Sets [`Options::hostname`].
    #[must_use]
    pub fn hostname(mut self, hostname: impl Into<Str>) -> Self {
        self.hostname = Some(hostname.into());
        self
    }

    /// Sets [`Options::properties`].
    #[must_use]
    pub fn properties(mut self, properties: Map) -> Self {
        self.properties = Some(properties);
        self
    }

    /// Sets [`Options::timeout`].
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets [`Options::engine`].
    #[must_use]
    pub fn engine(mut self, engine: engine::Options) -> Self {
        self.engine = engine;
        self
    }

    pub(super) fn to_open(&self) -> Open {
        Open {
            container_id: self.container_id.clone(),
            hostname: self.hostname.clone(),
            properties: self.properties.clone(),
            ..Open::default()
        }
    }
}
