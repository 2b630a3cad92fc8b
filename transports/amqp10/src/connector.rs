use std::{fmt::Display, ops::RangeInclusive, str::FromStr, time::Duration};

use consign_core::transport::{BoxFuture, ConnectError, Connector, DynTransport, TransportUrl};

use crate::{
    Amqp10, DeadLetters, Options, Product, Sasl,
    broker::PATH,
    options::{LONGEST, MOST_PREFETCHED, is_request_path},
    servers::{self, Servers},
};

/// Returns the connector of AMQP 1.0.
///
/// | URL | |
/// |---|---|
/// | `amqp10://user:password@host:5672` | a connection without encryption; the port is 5672 by default |
/// | `amqps10://user:password@host:5671` | a connection by TLS; the port is 5671 by default |
/// | `amqp10://user:password@one:5672,two:5672` | several hosts, which are tried in turn, also to connect again |
///
/// User and password are percent-encoded. Without a user the mechanism is `ANONYMOUS`.
///
/// | parameter | form | default | |
/// |---|---|---|---|
/// | `timeout` | a duration, `1ms` to `1440m` | `30s` | [`Options::timeout`] |
/// | `idle_timeout` | a duration, `1s` to `1440m` | `60s` | [`Options::idle_timeout`] |
/// | `backoff` | a duration, up to `1440m` | `100ms` | the first pause of [`Options::backoff`] |
/// | `max_backoff` | a duration from `backoff` to `1440m` | `10s`, or `backoff` if that is longer | the longest pause of [`Options::backoff`] |
/// | `prefetch` | a number, 0 to 4096 | 0 | [`Options::prefetch`] |
/// | `address` | text with `{path}` | `{path}` | [`Options::address`] |
/// | `dead_letter_address` | text with `{path}` | the address of `{path}/$deadletterqueue` | [`Options::dead_letter_address`] |
/// | `dead_letters` | `copy` or `reject` | `copy` | [`Options::dead_letters`] |
/// | `confirm_settlements` | `true` or `false` | `true` | [`Options::confirm_settlements`] |
/// | `scheduling` | `true` or `false` | `false` | [`Options::scheduling`] |
/// | `time_to_live` | `true` or `false` | `false` | [`Options::time_to_live`] |
/// | `max_delivery_count` | a number from 1 | 10 | [`Options::max_delivery_count`] |
/// | `max_message_size` | bytes, from 1024 | 67108864 | [`Options::max_message_size`] |
/// | `name` | text | `consign` and a random number | [`Options::name`] |
/// | `hostname` | text | the connected host | [`Options::hostname`] |
/// | `sasl` | `login`, `external` or `none` | `login` | [`Options::sasl`] |
/// | `certificates` | the path of a file in PEM | none | [`Options::certificates`] |
/// | `client_certificate`, `client_key` | the paths of files in PEM, both or none | none | [`Options::client_certificate`] |
/// | `web_socket` | a path such as `/`, percent-encoded | none | [`Options::web_socket`]; the default port is 80, or 443 for `amqps10:` |
/// | `product` | `generic` or `rabbitmq-3` | as the broker reports | [`Options::product`] |
///
/// A duration is a whole number with a unit: `500ms`, `30s` or `5m`.
///
/// # Examples
///
/// ```no_run
/// use consign::transport::TransportRegistry;
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let transports = TransportRegistry::new().with(consign_amqp10::connector());
/// let url = "amqp10://shop:secret@one:5672,two:5672?timeout=10s&dead_letter_address=DLQ.{path}";
/// let transport = transports.connect(url).await?;
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
        &["amqp10", "amqps10"]
    }

    fn connect(&self, mut url: TransportUrl) -> BoxFuture<Result<DynTransport, ConnectError>> {
        Box::pin(async move {
            let mut options = options(&mut url)?;
            let certificates = url.take("certificates");
            let client = (url.take("client_certificate"), url.take("client_key"));
            url.finish()?;
            if let Some(path) = certificates {
                options = options.certificates(read("certificates", path).await?);
            }
            options = match client {
                (None, None) => options,
                (Some(chain), Some(key)) => {
                    options.client_certificate(read("client_certificate", chain).await?, read("client_key", key).await?)
                }
                (None, _) => {
                    return Err(ConnectError::invalid_parameter(
                        "client_certificate",
                        "a path, as `client_key` is set",
                    ));
                }
                (_, None) => {
                    return Err(ConnectError::invalid_parameter(
                        "client_key",
                        "a path, as `client_certificate` is set",
                    ));
                }
            };
            let servers = Servers::parse(&url.to_url(), options.web_socket.is_some());
            let servers = servers.map_err(|_| ConnectError::invalid_url(servers::FORM))?;
            let amqp = Amqp10::open(options, servers).await;
            Ok(amqp.map_err(consign_core::transport::ManageError::from)?.into())
        })
    }
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
    if let Some(messages) = number(url, "prefetch", 0..=MOST_PREFETCHED)? {
        options = options.prefetch(messages);
    }
    if let Some(address) = template(url, "address")? {
        options = options.address(address);
    }
    if let Some(address) = template(url, "dead_letter_address")? {
        options = options.dead_letter_address(address);
    }
    let dead_letters = [("copy", DeadLetters::Copy), ("reject", DeadLetters::Reject)];
    if let Some(dead_letters) = one_of(url, "dead_letters", "`copy` or `reject`", dead_letters)? {
        options = options.dead_letters(dead_letters);
    }
    if let Some(confirm) = flag(url, "confirm_settlements")? {
        options = options.confirm_settlements(confirm);
    }
    if let Some(supported) = flag(url, "scheduling")? {
        options = options.scheduling(supported);
    }
    if let Some(permitted) = flag(url, "time_to_live")? {
        options = options.time_to_live(permitted);
    }
    if let Some(deliveries) = number(url, "max_delivery_count", 1..=u32::MAX)? {
        options = options.max_delivery_count(deliveries);
    }
    if let Some(bytes) = number(url, "max_message_size", 1_024..=u64::MAX)? {
        options = options.max_message_size(bytes);
    }
    if let Some(name) = url.take("name") {
        options = options.name(name);
    }
    if let Some(hostname) = url.take("hostname") {
        options = options.hostname(hostname);
    }
    let sasl = [("login", Sasl::Login), ("external", Sasl::External), ("none", Sasl::None)];
    if let Some(sasl) = one_of(url, "sasl", "`login`, `external` or `none`", sasl)? {
        options = options.sasl(sasl);
    }
    if let Some(path) = url.take("web_socket") {
        if !is_request_path(&path) {
            return Err(ConnectError::invalid_parameter("web_socket", "a path that begins with `/`, percent-encoded"));
        }
        options = options.web_socket(path);
    }
    let products = [("generic", Product::Generic), ("rabbitmq-3", Product::RabbitMq3)];
    if let Some(product) = one_of(url, "product", "`generic` or `rabbitmq-3`", products)? {
        options = options.product(product);
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

fn template(url: &mut TransportUrl, name: &str) -> Result<Option<String>, ConnectError> {
    match url.take(name) {
        Some(address) if !address.contains(PATH) => {
            Err(ConnectError::invalid_parameter(name, "an address that contains `{path}`"))
        }
        address => Ok(address),
    }
}

fn one_of<T, const N: usize>(
    url: &mut TransportUrl,
    name: &str,
    expected: &str,
    values: [(&str, T); N],
) -> Result<Option<T>, ConnectError> {
    let Some(text) = url.take(name) else { return Ok(None) };
    let found = values.into_iter().find(|(value, _)| *value == text);
    found.map(|(_, value)| Some(value)).ok_or_else(|| ConnectError::invalid_parameter(name, expected))
}

/// Reads a file. No error has its path.
async fn read(name: &str, path: String) -> Result<String, ConnectError> {
    let reading = tokio::task::spawn_blocking(move || std::fs::read_to_string(path)).await;
    let unreadable = || ConnectError::invalid_parameter(name, "the path of a file in PEM that can be read");
    reading.map_err(|_| unreadable())?.map_err(|_| unreadable())
}
