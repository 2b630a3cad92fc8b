use consign_core::transport::{BoxFuture, ConnectError, Connector, DynTransport, TransportUrl};

use crate::Broker;

/// Returns the connector of the embedded broker.
///
/// | URL | broker |
/// |---|---|
/// | `memory:` | a new broker in memory; each call makes another |
/// | `file:PATH` | the broker in the folder at `PATH`, with the feature `durable`; it is created if it does not exist |
///
/// `file:///var/orders` is the path `/var/orders`, and `file:` with a host is refused. The path is used as it stands: `%20` is
/// three characters of it, and it cannot contain `?` or `#`. The URLs have no parameters.
///
/// Locks that a broker with `OpenOptions::hold_locks` has written hold until they end. The locks of this broker do not
/// outlive its process.
#[must_use]
pub fn connector() -> impl Connector {
    Embedded
}

struct Embedded;

const SCHEMES: &[&str] = if cfg!(feature = "durable") { &["file", "memory"] } else { &["memory"] };

impl Connector for Embedded {
    fn schemes(&self) -> &'static [&'static str] {
        SCHEMES
    }

    fn connect(&self, url: TransportUrl) -> BoxFuture<Result<DynTransport, ConnectError>> {
        Box::pin(async move {
            url.finish()?;
            match url.scheme() {
                "memory" if url.address().is_empty() => Ok(Broker::new().into()),
                "memory" => Err(ConnectError::invalid_url("expected `memory:` with nothing after it")),
                _ => open(url.address()),
            }
        })
    }
}

#[cfg(feature = "durable")]
fn open(path: &str) -> Result<DynTransport, ConnectError> {
    use consign_core::transport::ManageError;

    let given = path.len();
    // `file:///var/orders` is `file:/var/orders`.
    let path = path.strip_prefix("//").unwrap_or(path);
    if path.is_empty() || path.len() < given && !path.starts_with('/') {
        return Err(ConnectError::invalid_url("expected the path of a folder, without a host, after `file:`"));
    }
    Ok(Broker::options().keep_locks().open(path).map_err(ManageError::from)?.into())
}

#[cfg(not(feature = "durable"))]
fn open(_: &str) -> Result<DynTransport, ConnectError> {
    Err(ConnectError::invalid_url("expected `memory:`"))
}
