use std::{fmt::Display, ops::RangeInclusive, str::FromStr, time::Duration};

use consign_core::transport::{BoxFuture, ConnectError, Connector, DynTransport, ManageError, TransportUrl};
use percent_encoding::percent_decode_str;

use crate::{
    ConnectionString, Options,
    connection_string::{Secret, authority},
    options::{LONGEST, MOST_PREFETCHED, MOST_RETRIES},
    proxy::{self, Proxy},
};

const FORM: &str = "expected `servicebus://key-name:key@host`, with a port for a server on another one, and percent-encoding in UTF-8, \
     or `servicebus:?connection_string_from=VARIABLE`";

/// Returns the connector of Azure Service Bus.
///
/// | URL | |
/// |---|---|
/// | `servicebus://key-name:key@example.servicebus.windows.net` | TLS on port 5671, or on 443 with `web_socket=true` |
/// | `servicebus://any:any@127.0.0.1:5672?emulator=true` | a server for development, without TLS |
/// | `servicebus:?connection_string_from=SERVICEBUS` | the [connection string](ConnectionString) in the environment variable `SERVICEBUS` |
///
/// Name and key are percent-encoded: the `/`, `+` and `=` of a key are `%2F`, `%2B` and `%3D`.
///
/// | parameter | form | default | |
/// |---|---|---|---|
/// | `connection_string_from` | the name of an environment variable | none | |
/// | `emulator` | `true` or `false` | `false` | no TLS |
/// | `web_socket` | `true` or `false` | `false` | [`Options::web_socket`] |
/// | `http_port` | a number, 1 to 65535 | 443, or 5300 without TLS | [`Options::http_port`] |
/// | `timeout` | a duration, `1ms` to `1440m` | `60s` | [`Options::timeout`] |
/// | `idle_timeout` | a duration, `1s` to `1440m` | `60s` | [`Options::idle_timeout`] |
/// | `backoff` | a duration, up to `1440m` | `800ms` | the first pause of [`Options::backoff`] |
/// | `max_backoff` | a duration from `backoff` to `1440m` | `60s`, or `backoff` if that is longer | the longest pause of [`Options::backoff`] |
/// | `retries` | a number, 0 to 100 | 3 | [`Options::retries`] |
/// | `prefetch` | a number, 0 to 4096 | 0 | [`Options::prefetch`] |
/// | `max_message_size` | bytes, from 1024 | 104923136 | [`Options::max_message_size`] |
/// | `name` | text | `consign` and a random number | [`Options::name`] |
/// | `proxy` | `http://user:password@host:port`, percent-encoded | none | [`Options::proxy`] |
/// | `certificates` | the path of a file in PEM | none | [`Options::certificates`] |
///
/// A duration is a whole number with a unit: `500ms`, `30s` or `5m`.
///
/// # Examples
///
/// ```no_run
/// use consign::transport::TransportRegistry;
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let transports = TransportRegistry::new().with(consign_servicebus::connector());
/// let transport = transports.connect("servicebus:?connection_string_from=SERVICEBUS&prefetch=50").await?;
/// # Ok(())
/// # }
/// ```
#[must_use]
pub fn connector() -> impl Connector {
    OfUrl
}

struct OfUrl;

impl Connector for OfUrl {
    fn schemes(&self) -> &'static [&'static str] {
        &["servicebus"]
    }

    fn connect(&self, mut url: TransportUrl) -> BoxFuture<Result<DynTransport, ConnectError>> {
        Box::pin(async move {
            let mut options = options(&mut url)?;
            let (variable, certificates) = (url.take("connection_string_from"), url.take("certificates"));
            let is_emulator = flag(&mut url, "emulator")?;
            url.finish()?;
            let parsed = match variable {
                None => server(url.address(), is_emulator.unwrap_or(false)),
                Some(_) if !url.address().trim_matches('/').is_empty() || is_emulator.is_some() => None,
                Some(variable) => Some(from_variable(&variable)?),
            };
            let parsed = parsed.ok_or_else(|| ConnectError::invalid_url(FORM))?;
            if let Some(path) = certificates {
                options = options.certificates(read("certificates", path).await?);
            }
            let opened = options.open(&parsed).await;
            Ok(opened.map_err(ManageError::from)?.into())
        })
    }
}

/// Reads `//key-name:key@host:port`.
fn server(address: &str, is_emulator: bool) -> Option<ConnectionString> {
    let rest = address.strip_prefix("//")?;
    let (login, host) = rest.strip_suffix('/').unwrap_or(rest).rsplit_once('@')?;
    let (name, key) = login.split_once(':')?;
    let decoded = |text| percent_decode_str(text).decode_utf8().ok().filter(|text| !text.is_empty());
    let secret = Secret::Key { name: decoded(name)?.into_owned(), key: decoded(key)?.into_owned() };
    let (host, port) = authority(host)?;
    Some(ConnectionString { host, port, secret, entity_path: None, is_emulator })
}

/// Reads the connection string in an environment variable. No error has its value.
fn from_variable(variable: &str) -> Result<ConnectionString, ConnectError> {
    let invalid = |expected: &str| ConnectError::invalid_parameter("connection_string_from", expected);
    let value = std::env::var(variable).map_err(|_| invalid("the name of an environment variable that is set"))?;
    value.parse().map_err(|error| invalid(&format!("a variable with a connection string ({error})")))
}

fn options(url: &mut TransportUrl) -> Result<Options, ConnectError> {
    let mut options = Options::default();
    if let Some(timeout) = duration(url, "timeout", Duration::from_millis(1)..=LONGEST)? {
        options = options.timeout(timeout);
    }
    if let Some(timeout) = duration(url, "idle_timeout", Duration::from_secs(1)..=LONGEST)? {
        options = options.idle_timeout(timeout);
    }
    let (first, most) = options.backoff;
    let first = duration(url, "backoff", Duration::ZERO..=LONGEST)?.unwrap_or(first);
    let most = duration(url, "max_backoff", first..=LONGEST)?.unwrap_or(most.max(first));
    options = options.backoff(first, most);
    if let Some(retries) = number(url, "retries", 0..=MOST_RETRIES)? {
        options = options.retries(retries);
    }
    if let Some(messages) = number(url, "prefetch", 0..=MOST_PREFETCHED)? {
        options = options.prefetch(messages);
    }
    if let Some(bytes) = number(url, "max_message_size", 1_024..=u64::MAX)? {
        options = options.max_message_size(bytes);
    }
    if let Some(port) = number(url, "http_port", 1..=u16::MAX)? {
        options = options.http_port(port);
    }
    if let Some(name) = url.take("name") {
        options = options.name(name);
    }
    if let Some(proxy) = url.take("proxy") {
        if Proxy::parse(&proxy).is_none() {
            return Err(ConnectError::invalid_parameter("proxy", proxy::FORM));
        }
        options = options.proxy(proxy);
    }
    if let Some(web_socket) = flag(url, "web_socket")? {
        options = options.web_socket(web_socket);
    }
    Ok(options)
}

fn duration(
    url: &mut TransportUrl,
    name: &str,
    range: RangeInclusive<Duration>,
) -> Result<Option<Duration>, ConnectError> {
    match url.take_duration(name)? {
        Some(duration) if !range.contains(&duration) => {
            let expected = format!("a duration from {:?} to {:?}", range.start(), range.end());
            Err(ConnectError::invalid_parameter(name, &expected))
        }
        duration => Ok(duration),
    }
}

fn number<T: FromStr + PartialOrd + Display>(
    url: &mut TransportUrl,
    name: &str,
    range: RangeInclusive<T>,
) -> Result<Option<T>, ConnectError> {
    let expected = format!("a number from {} to {}", range.start(), range.end());
    match url.take_parsed(name, &expected)? {
        Some(number) if !range.contains(&number) => Err(ConnectError::invalid_parameter(name, &expected)),
        number => Ok(number),
    }
}

fn flag(url: &mut TransportUrl, name: &str) -> Result<Option<bool>, ConnectError> {
    url.take_parsed(name, "`true` or `false`")
}

/// Reads a file. No error has its path.
async fn read(name: &str, path: String) -> Result<String, ConnectError> {
    let reading = tokio::task::spawn_blocking(move || std::fs::read_to_string(path)).await;
    let unreadable = || ConnectError::invalid_parameter(name, "the path of a file in PEM that can be read");
    reading.map_err(|_| unreadable())?.map_err(|_| unreadable())
}
