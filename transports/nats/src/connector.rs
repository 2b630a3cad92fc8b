use std::time::Duration;

use consign_core::transport::{BoxFuture, ConnectError, Connector, DynTransport, TransportUrl};

use crate::{
    Nats, Options, options,
    servers::{self, Servers},
};

/// Returns the connector of NATS JetStream.
///
/// | URL | servers |
/// |---|---|
/// | `nats://127.0.0.1:4222` | one, with TLS if it requires it; the port is 4222 by default |
/// | `tls://one.example,two.example` | two of one cluster, with TLS. The client uses one, and another if it fails |
/// | `nats://user:password@127.0.0.1` | with a user |
/// | `nats://token@127.0.0.1` | with a token |
///
/// Characters of a user, a password or a token that have a meaning in a URL, and commas, are percent-encoded: `%2C`. The user of
/// one server is that of all.
///
/// | parameter | value | default | option |
/// |---|---|---|---|
/// | `namespace` | 1 to 32 letters, digits and hyphens | `consign` | [`Options::namespace`] |
/// | `domain` | letters, digits, `-` and `_` | none | [`Options::domain`] |
/// | `timeout` | a duration, `1ms` to `1440m` | `10s` | [`Options::timeout`] |
/// | `backoff` | a duration, `1ms` to `1440m` | `100ms` | the first pause of [`Options::backoff`] |
/// | `max_backoff` | a duration, `backoff` to `1440m` | `10s`, or `backoff` if that is longer | the longest pause of [`Options::backoff`] |
/// | `server_syncs` | `true` or `false` | `false` | [`Options::server_syncs`] |
/// | `credentials_file` | the path of a file with a JWT and a key | none | [`ConnectOptions::credentials_file`](async_nats::ConnectOptions::credentials_file) |
/// | `certificates` | the path of a file in PEM | those of the system | [`ConnectOptions::add_root_certificates`](async_nats::ConnectOptions::add_root_certificates) |
/// | `client_certificate`, `client_key` | the paths of files in PEM, both or none | none | [`ConnectOptions::add_client_certificate`](async_nats::ConnectOptions::add_client_certificate) |
///
/// A duration is a whole number of milliseconds (`500ms`), seconds (`30s`) or minutes (`5m`). Other options of the client have
/// no parameter: [`Options::client`] sets them.
///
/// # Examples
///
/// ```no_run
/// use consign::transport::TransportRegistry;
///
/// # async fn connect() -> Result<(), consign::transport::ConnectError> {
/// let transports = TransportRegistry::new().with(consign_nats::connector());
/// let transport = transports.connect("nats://127.0.0.1:4222?namespace=shop&timeout=5s").await?;
/// # Ok(())
/// # }
/// ```
#[must_use]
pub fn connector() -> impl Connector {
    JetStream
}

struct JetStream;

impl Connector for JetStream {
    fn schemes(&self) -> &'static [&'static str] {
        &["nats", "tls"]
    }

    fn connect(&self, url: TransportUrl) -> BoxFuture<Result<DynTransport, ConnectError>> {
        Box::pin(connect(url))
    }
}

async fn connect(mut url: TransportUrl) -> Result<DynTransport, ConnectError> {
    let options = parameters(&mut url).await?;
    url.finish()?;
    if !url.address().starts_with("//") {
        return Err(ConnectError::invalid_url(servers::FORM));
    }
    let servers = format!("{}:{}", url.scheme(), url.address());
    let servers = Servers::parse(&servers).map_err(ConnectError::invalid_url)?;
    Ok(options.connect_to(servers).await?.into())
}

async fn parameters(url: &mut TransportUrl) -> Result<Options, ConnectError> {
    let mut options = Nats::options();
    if let Some(namespace) = url.take("namespace") {
        if !options::is_namespace(&namespace) {
            return Err(ConnectError::invalid_parameter("namespace", options::NAMESPACE));
        }
        options = options.namespace(namespace);
    }
    if let Some(domain) = url.take("domain") {
        if domain.is_empty() || !domain.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
        {
            return Err(ConnectError::invalid_parameter("domain", "letters, digits, `-` and `_`"));
        }
        options = options.domain(domain);
    }
    if let Some(timeout) = duration(url, "timeout")? {
        options = options.timeout(timeout);
    }
    let (first, max) = (duration(url, "backoff")?, duration(url, "max_backoff")?);
    let first = first.unwrap_or(options::FIRST_BACKOFF);
    if max.is_some_and(|max| max < first) {
        return Err(ConnectError::invalid_parameter("max_backoff", "a duration of `backoff` at least"));
    }
    options = options.backoff(first, max.unwrap_or(options::MAX_BACKOFF.max(first)));
    if let Some(true) = url.take_parsed("server_syncs", "`true` or `false`")? {
        options = options.server_syncs();
    }
    let mut client = options::client();
    if let Some(path) = url.take("credentials_file") {
        let unreadable = |_| ConnectError::invalid_parameter("credentials_file", "the path of a file with credentials");
        client = client.credentials_file(path).await.map_err(unreadable)?;
    }
    if let Some(path) = url.take("certificates") {
        client = client.add_root_certificates(path.into());
    }
    client = match (url.take("client_certificate"), url.take("client_key")) {
        (None, None) => client,
        (Some(chain), Some(key)) => client.add_client_certificate(chain.into(), key.into()),
        (None, _) => {
            return Err(ConnectError::invalid_parameter("client_certificate", "a path, as `client_key` is set"));
        }
        (_, None) => {
            return Err(ConnectError::invalid_parameter("client_key", "a path, as `client_certificate` is set"));
        }
    };
    options.client = client;
    Ok(options)
}

fn duration(url: &mut TransportUrl, name: &str) -> Result<Option<Duration>, ConnectError> {
    let duration = url.take_duration(name)?;
    if duration.is_some_and(|duration| duration.is_zero() || duration > options::DAY) {
        return Err(ConnectError::invalid_parameter(name, "a duration of `1ms` to `1440m`"));
    }
    Ok(duration)
}
