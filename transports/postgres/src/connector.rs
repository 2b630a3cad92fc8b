//! The broker of a URL.

use std::{ops::RangeInclusive, time::Duration};

use consign_core::transport::{BoxFuture, ConnectError, Connector, DynTransport, TransportUrl};
use tokio_postgres::Config;

use crate::{
    Options,
    options::{LONGEST, MAX_CONNECTIONS, MAX_DELIVERIES, SHORTEST_POLL, is_schema_name},
};

/// Returns the connector of PostgreSQL, for the schemes `postgres:` and `postgresql:`.
///
/// ```text
/// postgres://user:password@host:port,host:port/database?parameter=value&parameter=value
/// ```
///
/// Connecting creates the schema of the broker, or migrates it to the version of this library, as
/// [`Postgres::migrate`](crate::Postgres::migrate) does. If it is up to date nothing is written.
///
/// | parameter | value | default | option |
/// |---|---|---|---|
/// | `schema` | 1 to 40 bytes, and neither `{` nor `$$` | `consign` | [`Options::schema`] |
/// | `connections` | 1 to 4,096 | 8 | [`Options::connections`] |
/// | `timeout` | 10 ms to 1 day | `10s` | [`Options::timeout`] |
/// | `poll_every` | 10 ms to 1 day | `1s` | [`Options::poll_every`] |
/// | `grace` | at most 1 day | `5s` | [`Options::grace`] |
/// | `max_deliveries` | 1 to 1,048,576 | 10,000 | [`Options::max_deliveries`] |
/// | `prepared_statements` | `true` or `false` | `true` | [`Options::prepared_statements`] |
/// | `listen_on` | `host:port`, or several with commas between them | those of the URL | [`Options::listen_on`], with the user and the parameters of the URL |
/// | `migrate` | `true` or `false` | `true` | whether connecting migrates the schema |
/// | `certificates` | the path of a file in PEM | none | [`Options::certificates`] |
/// | `client_certificate`, `client_key` | the paths of files in PEM, both or none | none | [`Options::client_certificate`] |
///
/// A duration is a whole number with its unit: `500ms`, `30s`, `5m`. `?`, `#` and `@` in a user or a password are written
/// `%3F`, `%23` and `%40`.
///
/// These parameters are those of [`tokio_postgres::Config`]: `application_name`, `channel_binding`, `connect_timeout`,
/// `dbname`, `host`, `hostaddr`, `keepalives`, `keepalives_idle`, `keepalives_interval`, `keepalives_retries`,
/// `load_balance_hosts`, `options`, `password`, `port`, `sslmode`, `sslnegotiation`, `target_session_attrs`,
/// `tcp_user_timeout`, `user`. Others are refused.
///
/// Several hosts are tried in their order, for the first connection and for each later one. One that does not answer within
/// `connect_timeout`, or else an equal part of `timeout`, is left for the next one. `target_session_attrs=read-write` skips
/// servers that are not the primary. `sslmode` chooses TLS, as [`Options::connect`] describes.
///
/// # Examples
///
/// ```no_run
/// use consign::transport::TransportRegistry;
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let transports = TransportRegistry::new().with(consign_postgres::connector());
/// let url = "postgres://shop@one,two/shop?target_session_attrs=read-write&schema=orders";
/// let transport = transports.connect(url).await?;
/// # Ok(())
/// # }
/// ```
#[must_use]
pub fn connector() -> impl Connector {
    Postgresql
}

struct Postgresql;

impl Connector for Postgresql {
    fn schemes(&self) -> &'static [&'static str] {
        &["postgres", "postgresql"]
    }

    fn connect(&self, mut url: TransportUrl) -> BoxFuture<Result<DynTransport, ConnectError>> {
        Box::pin(async move {
            let certificates = url.take("certificates");
            let client = (url.take("client_certificate"), url.take("client_key"));
            let Parsed { mut options, config, migrates } = Parsed::new(url)?;
            if let Some(path) = certificates {
                options = options.certificates(read("certificates", path).await?);
            }
            options = match client {
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
            let postgres = options.connect_config(config).await?;
            if migrates {
                postgres.migrate().await?;
            }
            Ok(postgres.into())
        })
    }
}

/// Reads a file. No error has its path.
async fn read(name: &str, path: String) -> Result<String, ConnectError> {
    let reading = tokio::task::spawn_blocking(move || std::fs::read_to_string(path)).await;
    let unreadable = || ConnectError::invalid_parameter(name, "the path of a file in PEM that can be read");
    reading.map_err(|_| unreadable())?.map_err(|_| unreadable())
}

/// The parameters of `tokio_postgres::Config`, with the forms of their values.
const DRIVER: [(&str, &str); 19] = [
    ("application_name", "a text"),
    ("channel_binding", "`disable`, `prefer` or `require`"),
    ("connect_timeout", "a number of seconds"),
    ("dbname", "the name of a database"),
    ("host", "a host, or the path of a folder with a socket"),
    ("hostaddr", "IP addresses with commas between them"),
    ("keepalives", "`0` or `1`"),
    ("keepalives_idle", "a number of seconds"),
    ("keepalives_interval", "a number of seconds"),
    ("keepalives_retries", "a number"),
    ("load_balance_hosts", "`disable` or `random`"),
    ("options", "options of the server"),
    ("password", "a password"),
    ("port", "ports with commas between them"),
    ("sslmode", "`disable`, `prefer` or `require`"),
    ("sslnegotiation", "`postgres` or `direct`"),
    ("target_session_attrs", "`any`, `read-write` or `read-only`"),
    ("tcp_user_timeout", "a number of seconds"),
    ("user", "the name of a user"),
];

/// What a URL says.
struct Parsed {
    options: Options,
    config: Config,
    migrates: bool,
}

impl Parsed {
    fn new(mut url: TransportUrl) -> Result<Self, ConnectError> {
        let mut options = Options::new();
        if let Some(schema) = url.take("schema") {
            if !is_schema_name(&schema) {
                return Err(ConnectError::invalid_parameter("schema", "1 to 40 bytes, and neither `{` nor `$$`"));
            }
            options = options.schema(schema);
        }
        let expected = "a number from 1 to 4096";
        if let Some(connections) = url.take_parsed::<usize>("connections", expected)? {
            if !MAX_CONNECTIONS.contains(&connections) {
                return Err(ConnectError::invalid_parameter("connections", expected));
            }
            options = options.connections(connections);
        }
        let shortest = Duration::from_millis(10);
        if let Some(timeout) = duration(&mut url, "timeout", shortest..=LONGEST)? {
            options = options.timeout(timeout);
        }
        if let Some(interval) = duration(&mut url, "poll_every", SHORTEST_POLL..=LONGEST)? {
            options = options.poll_every(interval);
        }
        if let Some(grace) = duration(&mut url, "grace", Duration::ZERO..=LONGEST)? {
            options = options.grace(grace);
        }
        let expected = "a number from 1 to 1048576";
        if let Some(deliveries) = url.take_parsed::<usize>("max_deliveries", expected)? {
            if !MAX_DELIVERIES.contains(&deliveries) {
                return Err(ConnectError::invalid_parameter("max_deliveries", expected));
            }
            options = options.max_deliveries(deliveries);
        }
        if let Some(is_on) = url.take_parsed("prepared_statements", "`true` or `false`")? {
            options = options.prepared_statements(is_on);
        }
        let migrates = url.take_parsed("migrate", "`true` or `false`")?.unwrap_or(true);
        let hosts = url.take("listen_on");
        let config = config(&url)?;
        if let Some(hosts) = hosts {
            let expected =
                "`host:port`, or several with commas between them, and a URL without `host`, `hostaddr` and `port`";
            let listening =
                listening(&url, &hosts).ok_or_else(|| ConnectError::invalid_parameter("listen_on", expected))?;
            options = options.listen_on(listening);
        }
        Ok(Self { options, config, migrates })
    }
}

fn duration(
    url: &mut TransportUrl,
    name: &str,
    range: RangeInclusive<Duration>,
) -> Result<Option<Duration>, ConnectError> {
    let duration = url.take_duration(name)?;
    if duration.is_some_and(|duration| !range.contains(&duration)) {
        let expected = format!("{} ms to 1 day", range.start().as_millis());
        return Err(ConnectError::invalid_parameter(name, &expected));
    }
    Ok(duration)
}

/// Returns the configuration of the driver, from the parameters that are left.
fn config(url: &TransportUrl) -> Result<Config, ConnectError> {
    let mut unknown = url.clone();
    for (name, expected) in DRIVER {
        if let Some(value) = unknown.take(name) {
            // The error of the whole URL does not tell which parameter it is.
            let escaped = value.replace('\\', "\\\\").replace('\'', "\\'");
            if format!("{name}='{escaped}'").parse::<Config>().is_err() {
                return Err(ConnectError::invalid_parameter(name, expected));
            }
        }
    }
    unknown.finish()?;
    let invalid = || ConnectError::invalid_url("expected `postgres://user:password@host:port/database`");
    if !url.address().starts_with("//") {
        return Err(invalid());
    }
    let config: Config = url.to_url().parse().map_err(|_| invalid())?;
    if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
        return Err(ConnectError::invalid_url("expected a host in `postgres://user:password@host:port/database`"));
    }
    Ok(config)
}

/// Returns the configuration of a URL with other hosts.
fn listening(url: &TransportUrl, hosts: &str) -> Option<Config> {
    let mut others = url.clone();
    let has_hosts = ["host", "hostaddr", "port"].into_iter().any(|name| others.take(name).is_some());
    if has_hosts || hosts.is_empty() || hosts.contains(['@', '/', '?', '#']) {
        return None;
    }
    let (authority, database) = url.address()[2..].split_once('/').unwrap_or((&url.address()[2..], ""));
    let user = authority.rsplit_once('@').map_or(String::new(), |(user, _)| format!("{user}@"));
    let address = format!("//{user}{hosts}/{database}");
    url.to_url().replacen(url.address(), &address, 1).parse().ok()
}

#[cfg(test)]
mod tests {
    use consign_core::transport::ConnectErrorKind;
    use tokio_postgres::config::{Host, TargetSessionAttrs};

    use super::*;

    fn parse(url: &str) -> Result<Parsed, ConnectError> {
        Parsed::new(TransportUrl::parse(url).unwrap())
    }

    #[test]
    fn parameters_of_the_driver_reach_its_configuration() {
        let url = "postgres://u:p%40ss@one:1,two:2/shop?target_session_attrs=read-write&application_name=a%20'b%5C\
            &options=-c%20a%3Db&schema=s";
        let Parsed { config, .. } = parse(url).unwrap();
        assert_eq!(config.get_target_session_attrs(), TargetSessionAttrs::ReadWrite);
        assert_eq!(config.get_hosts(), [Host::Tcp("one".into()), Host::Tcp("two".into())]);
        assert_eq!(config.get_ports(), [1, 2]);
        assert_eq!((config.get_user(), config.get_password()), (Some("u"), Some(&b"p@ss"[..])));
        assert_eq!((config.get_dbname(), config.get_application_name()), (Some("shop"), Some("a 'b\\")));
        assert_eq!(config.get_options(), Some("-c a=b"));
        assert_eq!(parse("postgresql://one").unwrap().config.get_target_session_attrs(), TargetSessionAttrs::Any);
        // The form of each value that is refused, and the driver has each parameter.
        for (name, _) in DRIVER {
            let value = match name {
                "channel_binding" | "sslmode" => "require",
                "hostaddr" => "127.0.0.1",
                "load_balance_hosts" => "random",
                "sslnegotiation" => "direct",
                "target_session_attrs" => "any",
                _ => "1",
            };
            parse(&format!("postgres://one?{name}={value}")).map(drop).unwrap();
        }
    }

    #[test]
    fn own_parameters_reach_the_options() {
        let url = "postgres://one?schema=orders&connections=3&timeout=2s&poll_every=10ms&grace=1m&max_deliveries=7";
        let Parsed { options, migrates, .. } = parse(url).unwrap();
        let expected = Options::new()
            .schema("orders")
            .connections(3)
            .timeout(Duration::from_secs(2))
            .poll_every(Duration::from_millis(10))
            .grace(Duration::from_secs(60))
            .max_deliveries(7);
        assert_eq!(format!("{options:?}"), format!("{expected:?}"));
        assert!(migrates && !parse("postgres://one?migrate=false").unwrap().migrates);
    }

    #[test]
    fn the_listening_connection_has_its_own_hosts() {
        let Parsed { options, config, .. } =
            parse("postgres://u:p%40ss@pooler:6432/shop?listen_on=one:5433,two&connect_timeout=3").unwrap();
        assert_eq!(config.get_hosts(), [Host::Tcp("pooler".into())]);
        let listening = options.listening.unwrap();
        assert_eq!(listening.get_hosts(), [Host::Tcp("one".into()), Host::Tcp("two".into())]);
        assert_eq!(listening.get_ports(), [5433, 5432]);
        assert_eq!((listening.get_user(), listening.get_password()), (Some("u"), Some(&b"p@ss"[..])));
        assert_eq!((listening.get_dbname(), config.get_dbname()), (Some("shop"), Some("shop")));
        assert_eq!(listening.get_connect_timeout(), Some(&Duration::from_secs(3)));
    }

    #[test]
    fn a_url_that_cannot_be_used_is_refused_by_the_name_of_its_parameter() {
        for (query, name) in [
            ("schema=", "schema"),
            ("schema=a$$secret", "schema"),
            ("connections=0", "connections"),
            ("connections=4097", "connections"),
            ("connections=18446744073709551615", "connections"),
            ("connections=secret", "connections"),
            ("timeout=9ms", "timeout"),
            ("timeout=1441m", "timeout"),
            ("poll_every=secret", "poll_every"),
            ("poll_every=9ms", "poll_every"),
            ("grace=1441m", "grace"),
            ("max_deliveries=0", "max_deliveries"),
            ("max_deliveries=1048577", "max_deliveries"),
            ("migrate=secret", "migrate"),
            ("listen_on=", "listen_on"),
            ("listen_on=one:secret", "listen_on"),
            ("listen_on=secret%40one", "listen_on"),
            ("listen_on=secret&host=two", "listen_on"),
            ("connect_timeout=secret", "connect_timeout"),
            ("hostaddr=secret", "hostaddr"),
            ("port=secret", "port"),
            ("target_session_attrs=secret", "target_session_attrs"),
        ] {
            let error = parse(&format!("postgres://one?{query}")).err().unwrap();
            assert_eq!(error.kind(), ConnectErrorKind::InvalidParameter, "{query}");
            let text = format!("{error} {error:?}");
            assert!(text.contains(&format!("`{name}`")) && !text.contains("secret"), "{text}");
        }
        for name in ["sslrootcert", "Schema", "namespace"] {
            let error = parse(&format!("postgres://one?{name}=secret")).err().unwrap();
            assert_eq!(error.kind(), ConnectErrorKind::UnknownParameter);
            let text = format!("{error} {error:?}");
            assert!(text.contains(&format!("`{name}`")) && !text.contains("secret"), "{text}");
        }
        for url in ["postgres:one", "postgres:", "postgres://", "postgres:///shop", "postgres://u:secret@one:port/shop"]
        {
            let error = parse(url).err().unwrap();
            assert_eq!(error.kind(), ConnectErrorKind::InvalidUrl, "{url}");
            assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
        }
    }
}
