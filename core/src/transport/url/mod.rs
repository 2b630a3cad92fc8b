//! Transports by URL: `nats://127.0.0.1:4222`, `memory:`.

mod error;
mod parameters;

use std::{collections::BTreeMap, fmt, sync::Arc};

pub use self::{
    error::{ConnectError, ConnectErrorKind},
    parameters::TransportUrl,
};
use super::{BoxFuture, DynTransport};

/// Connects to the broker of a URL. A transport crate has one for its schemes.
pub trait Connector: Send + Sync + 'static {
    /// Returns the schemes, in lower case and without the colon.
    fn schemes(&self) -> &'static [&'static str];

    /// Connects. The scheme of the URL is one of [`schemes`](Self::schemes).
    ///
    /// A connector [takes](TransportUrl::take) the parameters that it has, refuses others, and writes no part of the URL
    /// except their names into an error: it may have a password in it.
    ///
    /// # Errors
    ///
    /// Those of [`TransportRegistry::connect`].
    fn connect(&self, url: TransportUrl) -> BoxFuture<Result<DynTransport, ConnectError>>;
}

/// The transports that a program has, by the schemes of their URLs.
///
/// | URL | registered by |
/// |---|---|
/// | `memory:` | `consign::broker::connector()` |
/// | `file:PATH` | `consign::broker::connector()`, with the feature `durable` |
/// | `amqp10://127.0.0.1:5672`, `amqps10:` | `consign_amqp10::connector()` |
/// | `nats://127.0.0.1:4222`, `tls:` | `consign_nats::connector()` |
/// | `amqp://guest:guest@127.0.0.1:5672/%2f`, `amqps:` | `consign_rabbitmq::connector()` |
/// | `postgres://user@127.0.0.1/database`, `postgresql:` | `consign_postgres::connector()` |
/// | `servicebus://key-name:key@host` | `consign_servicebus::connector()` |
///
/// Options are parameters of the query, `nats://127.0.0.1:4222?namespace=shop`; the crate of a transport has a table of them.
///
/// # Examples
///
/// ```
/// use consign::{
///     broker,
///     transport::{ConnectErrorKind, Transport, TransportRegistry},
/// };
///
/// # tokio_test::block_on(async {
/// let transports = TransportRegistry::new().with(broker::connector());
/// let transport = transports.connect("memory:").await?;
/// transport.close().await?;
///
/// let error = transports.connect("amqp://guest:secret@127.0.0.1").await.unwrap_err();
/// assert_eq!(error.kind(), ConnectErrorKind::UnknownScheme);
/// assert!(!error.to_string().contains("secret"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Default)]
pub struct TransportRegistry(BTreeMap<&'static str, Arc<dyn Connector>>);

impl TransportRegistry {
    /// Creates a registry without a transport.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a connector. It replaces an earlier one of the same scheme.
    #[must_use]
    pub fn with(mut self, connector: impl Connector) -> Self {
        let connector: Arc<dyn Connector> = Arc::new(connector);
        self.0.extend(connector.schemes().iter().map(|&scheme| (scheme, Arc::clone(&connector))));
        self
    }

    /// Returns the registered schemes, in alphabetical order.
    pub fn schemes(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.0.keys().copied()
    }

    /// Connects to the broker of a URL.
    ///
    /// # Errors
    ///
    /// [`InvalidUrl`](ConnectErrorKind::InvalidUrl), [`UnknownScheme`](ConnectErrorKind::UnknownScheme) with the registered
    /// schemes, [`UnknownParameter`](ConnectErrorKind::UnknownParameter) and
    /// [`InvalidParameter`](ConnectErrorKind::InvalidParameter) with its name, and
    /// [`Connection`](ConnectErrorKind::Connection) if the broker cannot be reached or refuses. No error has the URL in its
    /// text.
    pub async fn connect(&self, url: &str) -> Result<DynTransport, ConnectError> {
        let url = TransportUrl::parse(url)?;
        let Some(connector) = self.0.get(url.scheme()) else {
            return Err(ConnectError::unknown_scheme(self.schemes()));
        };
        connector.connect(url).await
    }
}

impl fmt::Debug for TransportRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.schemes()).finish()
    }
}
