use std::{fmt::Display, ops::RangeInclusive, str::FromStr, time::Duration};

use consign_core::transport::{BoxFuture, ConnectError, Connector, DynTransport, TransportUrl};

use crate::{
    Options, RabbitMq, address,
    options::{LONGEST, LONGEST_PREFIX, MOST_SENDS},
    settings::MOST_SLOTS,
};

/// Returns the connector of RabbitMQ.
///
/// | URL | |
/// |---|---|
/// | `amqp://user:password@host:5672/vhost` | a connection without encryption; the port is 5672 by default |
/// | `amqps://user:password@host:5671/vhost` | a connection by TLS; the port is 5671 by default |
/// | `amqp://user:password@one:5672,two:5672/vhost` | several hosts, which are tried in turn, also to connect again |
///
/// User, password and virtual host are percent-encoded: the virtual host `/` is `%2f`. It is also the default, as `guest` is for
/// user and password.
///
/// | parameter | form | default | |
/// |---|---|---|---|
/// | `timeout` | a duration, `1ms` to `1440m` | `30s` | [`Options::timeout`] |
/// | `heartbeat` | a duration of whole seconds, `1s` to `65535s` | `10s` | [`Options::heartbeat`] |
/// | `backoff` | a duration, up to `1440m` | `100ms` | the first pause of [`Options::backoff`] |
/// | `max_backoff` | a duration from `backoff` to `1440m` | `10s`, or `backoff` if that is longer | the longest pause of [`Options::backoff`] |
/// | `linger` | a duration, up to `1440m` | `100ms` | [`Options::linger`] |
/// | `name` | text | none | [`Options::name`] |
/// | `delays` | text of 1 to 100 bytes | `consign.delays` | [`Options::delays`] |
/// | `sends_in_flight` | a number, 1 to 65536 | 1024 | [`Options::sends_in_flight`] |
/// | `session_slots` | a number, 1 to 64 | 16 | [`Options::session_slots`] |
/// | `certificates` | the path of a file in PEM | none | [`Options::certificates`] |
/// | `client_certificate`, `client_key` | the paths of files in PEM, both or none | none | [`Options::client_certificate`] |
///
/// A duration is a whole number with a unit: `500ms`, `30s` or `5m`.
///
/// # Examples
///
/// ```no_run
/// use consign::transport::TransportRegistry;
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let transports = TransportRegistry::new().with(consign_rabbitmq::connector());
/// let url = "amqp://shop:secret@one:5672,two:5672/orders?timeout=10s&name=checkout";
/// let transport = transports.connect(url).await?;
/// # Ok(())
/// # }
/// ```
#[must_use]
pub fn connector() -> impl Connector {
    Amqp
}

struct Amqp;

impl Connector for Amqp {
    fn schemes(&self) -> &'static [&'static str] {
        &["amqp", "amqps"]
    }

    fn connect(&self, mut url: TransportUrl) -> BoxFuture<Result<DynTransport, ConnectError>> {
        Box::pin(async move {
            let options = options(&mut url)?;
            let certificates = url.take("certificates");
            let client = (url.take("client_certificate"), url.take("client_key"));
            url.finish()?;
            let address = url.to_url();
            address::parse(&address).map_err(|_| ConnectError::invalid_url(address::FORM))?;
            let options = match certificates {
                Some(path) => options.certificates(read("certificates", path).await?),
                None => options,
            };
            let options = match client {
                (None, None) => options,
                (Some(chain), Some(key)) => {
                    options.client_certificate(read("client_certificate", chain).await?, read("client_key", key).await?)
                }
                (None, _) => {
                    let expected = "a path, as `client_key` is set";
                    return Err(ConnectError::invalid_parameter("client_certificate", expected));
                }
                (_, None) => {
                    let expected = "a path, as `client_certificate` is set";
                    return Err(ConnectError::invalid_parameter("client_key", expected));
                }
            };
            Ok(options.connect(&address).await?.into())
        })
    }
}

fn options(url: &mut TransportUrl) -> Result<Options, ConnectError> {
    let mut options = RabbitMq::options();
    if let Some(timeout) = duration(url, "timeout", Duration::from_millis(1)..=LONGEST)? {
        options = options.timeout(timeout);
    }
    let longest = Duration::from_secs(u16::MAX.into());
    if let Some(heartbeat) = duration(url, "heartbeat", Duration::from_secs(1)..=longest)? {
        if heartbeat.subsec_nanos() > 0 {
            return Err(ConnectError::invalid_parameter("heartbeat", "whole seconds"));
        }
        options = options.heartbeat(heartbeat);
    }
    let (first, most) = options.backoff;
    let first = duration(url, "backoff", Duration::ZERO..=LONGEST)?.unwrap_or(first);
    let most = duration(url, "max_backoff", first..=LONGEST)?.unwrap_or(most);
    options = options.backoff(first, most);
    if let Some(linger) = duration(url, "linger", Duration::ZERO..=LONGEST)? {
        options = options.linger(linger);
    }
    if let Some(name) = url.take("name") {
        options = options.name(name);
    }
    if let Some(prefix) = url.take("delays") {
        if !(1..=LONGEST_PREFIX).contains(&prefix.len()) {
            return Err(ConnectError::invalid_parameter("delays", "1 to 100 bytes"));
        }
        options = options.delays(prefix);
    }
    if let Some(sends) = number(url, "sends_in_flight", 1..=MOST_SENDS)? {
        options = options.sends_in_flight(sends);
    }
    if let Some(slots) = number(url, "session_slots", 1..=MOST_SLOTS)? {
        options = options.session_slots(slots);
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

/// Reads a file. No error has its path.
async fn read(name: &str, path: String) -> Result<String, ConnectError> {
    let reading = tokio::task::spawn_blocking(move || std::fs::read_to_string(path)).await;
    let unreadable = || ConnectError::invalid_parameter(name, "the path of a file in PEM that can be read");
    reading.map_err(|_| unreadable())?.map_err(|_| unreadable())
}
