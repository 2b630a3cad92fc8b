//! The broker that a command works on.

use std::{convert::Infallible, ffi::OsString, fmt, fs::File, path::PathBuf, str::FromStr, time::Duration};

use clap::Args;
use consign::{
    broker,
    message::EntityPath,
    time::{Clock, SystemClock, Timestamp},
    transport::{DynTransport, Transport, TransportRegistry},
};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::{
    failure::{Exit, Failure},
    values,
};

/// Options of every command on a broker.
#[derive(Clone, Debug, Args)]
pub(crate) struct Target {
    /// The URL of the broker: `file:PATH`, `amqp:`, `amqps:`, `amqp10:`, `amqps10:`, `nats:`, `tls:`, `postgres:`, `servicebus:`
    ///
    /// The environment variable keeps a password out of the list of processes.
    #[arg(long, value_name = "URL", env = "CONSIGN_URL", hide_env_values = true)]
    pub(crate) url: BrokerUrl,
    #[command(flatten)]
    pub(crate) tls: ClientTls,
    /// The maximum time to connect
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = values::duration)]
    pub(crate) connect_timeout: Duration,
    /// Print JSON: one object for each result, and errors as objects on the standard error
    #[arg(long)]
    pub(crate) json: bool,
}

/// The files of TLS with a broker, which are parameters of its URL too.
#[derive(Clone, Debug, Default, Args)]
#[expect(clippy::struct_field_names, reason = "options are named after them")]
pub(crate) struct ClientTls {
    /// CA certificates in a PEM file, trusted in addition to those of the system
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// The certificate of the client with its chain, in PEM; not for `servicebus:`
    #[arg(long, value_name = "FILE", requires = "tls_client_key")]
    tls_client_cert: Option<PathBuf>,
    /// The private key of the certificate of the client, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_client_cert")]
    tls_client_key: Option<PathBuf>,
}

impl ClientTls {
    pub(crate) fn is_empty(&self) -> bool {
        self.tls_ca.is_none() && self.tls_client_cert.is_none()
    }

    /// The URL with a parameter for each file.
    fn add_to(&self, url: &str) -> Result<String, Failure> {
        let scheme = url.split_once(':').map_or(url, |(scheme, _)| scheme).to_ascii_lowercase();
        let mut url = url.to_owned();
        for (name, option, file) in [
            ("certificates", "--tls-ca", &self.tls_ca),
            ("client_certificate", "--tls-client-cert", &self.tls_client_cert),
            ("client_key", "--tls-client-key", &self.tls_client_key),
        ] {
            let Some(file) = file else { continue };
            match scheme.as_str() {
                "file" | "memory" => return Err(Failure::usage(format!("`{scheme}:` has no {option}"))),
                "servicebus" if name != "certificates" => {
                    return Err(Failure::usage(format!("`{scheme}:` has no {option}")));
                }
                "amqp" | "amqp10" => {
                    let with_tls = scheme.replace("amqp", "amqps");
                    return Err(Failure::usage(format!("`{scheme}:` has no TLS for {option}: use `{with_tls}:`")));
                }
                _ => {}
            }
            // A connector reads it again, and its error has neither the option nor the path.
            File::open(file)
                .map_err(|error| Failure::new(Exit::Failure, "Io", format!("{option}: {}: {error}", file.display())))?;
            let path = file.to_str().ok_or_else(|| Failure::usage(format!("the path of {option} is not UTF-8")))?;
            url.push(if url.contains('?') { '&' } else { '?' });
            url.extend([name, "="]);
            url.extend(utf8_percent_encode(path, NON_ALPHANUMERIC));
        }
        if self.is_empty() { Ok(url) } else { encrypted(&scheme, url) }
    }
}

/// The URL with TLS. These schemes use it only if the server requires it, or if nothing else is configured.
fn encrypted(scheme: &str, mut url: String) -> Result<String, Failure> {
    match scheme {
        "nats" => url.replace_range(..scheme.len(), "tls"),
        "postgres" | "postgresql" => {
            let query = url.split_once('?').map_or("", |(_, query)| query);
            match query.split('&').find_map(|parameter| parameter.strip_prefix("sslmode=")) {
                Some("require") => {}
                Some(_) => {
                    return Err(Failure::usage("--tls-ca and --tls-client-cert need `sslmode=require` in the URL"));
                }
                // They are parameters, so there is a query.
                None => url.push_str("&sslmode=require"),
            }
        }
        _ => {}
    }
    Ok(url)
}

/// A URL that may have a password in it.
#[derive(Clone)]
pub(crate) struct BrokerUrl(String);

impl BrokerUrl {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    fn is_memory(&self) -> bool {
        self.0.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case("memory:"))
    }

    /// Returns the text without this URL and without its password.
    pub(crate) fn redact(&self, text: &str) -> String {
        let has_login = self.0.contains('@');
        let mut text = if has_login { text.replace(&self.0, "(the URL)") } else { text.to_owned() };
        let authority = self.0.split_once("://").and_then(|(_, rest)| rest.rsplit_once('@')).map(|(user, _)| user);
        if let Some((_, password)) = authority.and_then(|user| user.split_once(':'))
            && !password.is_empty()
        {
            text = redact_password(&text, password);
        }
        redact_urls(&text)
    }
}

impl FromStr for BrokerUrl {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Debug for BrokerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BrokerUrl")
    }
}

/// Returns the text with `…` for a password. One of a few characters is only replaced as a word: others have its characters too.
fn redact_password(text: &str, password: &str) -> String {
    if password.len() > 2 {
        return text.replace(password, "…");
    }
    let (mut redacted, mut end) = (String::with_capacity(text.len()), 0);
    for (at, _) in text.match_indices(password) {
        let after = at + password.len();
        let is_word = !text[..at].ends_with(char::is_alphanumeric) && !text[after..].starts_with(char::is_alphanumeric);
        if is_word {
            redacted.push_str(&text[end..at]);
            redacted.push('…');
            end = after;
        }
    }
    redacted + &text[end..]
}

/// Returns the text with `…` for the user, the password and the query of each of these arguments that is a URL, and of each other URL
/// in it. Where an argument ends is not seen in the text: it may have quotes and spaces.
pub(crate) fn redact_arguments(text: &str, arguments: impl IntoIterator<Item = OsString>) -> String {
    let mut text = text.to_owned();
    for argument in arguments {
        let argument = argument.to_string_lossy();
        let Some((_, url)) = argument.split_once("://") else { continue };
        if url.contains(['@', '?', '#']) {
            text = text.replace(url, &redact_url(url));
        }
    }
    redact_urls(&text)
}

/// Returns what is behind the scheme of a URL, with `…` for the user, the password and the query.
fn redact_url(url: &str) -> String {
    let mut redacted = String::with_capacity(url.len());
    let (url, has_more) = match url.rsplit_once('@') {
        Some((_, host)) => {
            redacted.push_str("…@");
            (host, host.contains(['?', '#']))
        }
        None => (url, url.contains(['?', '#'])),
    };
    redacted.push_str(url.split(['?', '#']).next().unwrap_or_default());
    if has_more {
        redacted.push_str("?…");
    }
    redacted
}

/// Returns the text with `…` for the user, the password and the query of each URL in it.
pub(crate) fn redact_urls(text: &str) -> String {
    let mut redacted = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("://") {
        redacted.push_str(before);
        redacted.push_str("://");
        let end =
            after.find(|char: char| char.is_whitespace() || matches!(char, '\'' | '"' | '`')).unwrap_or(after.len());
        let (url, following) = after.split_at(end);
        redacted.push_str(&redact_url(url));
        rest = following;
    }
    redacted.push_str(rest);
    redacted
}

/// Returns a registry of all transports of the program.
pub(crate) fn transports() -> TransportRegistry {
    TransportRegistry::new()
        .with(broker::connector())
        .with(consign_amqp10::connector())
        .with(consign_nats::connector())
        .with(consign_postgres::connector())
        .with(consign_rabbitmq::connector())
        .with(consign_servicebus::connector())
}

impl Target {
    /// Connects. `memory:` is refused, because it would be empty.
    pub(crate) async fn connect(&self) -> Result<DynTransport, Failure> {
        if self.url.is_memory() {
            let refused =
                Failure::usage("memory: is a broker in this process, which is empty and ends with the command");
            return Err(refused.with_advice(
                ": use file:PATH, or `consign serve` and the URL servicebus://any:any@127.0.0.1:5672?emulator=true",
            ));
        }
        self.connect_any().await
    }

    /// Connects, to a new broker in memory too.
    pub(crate) async fn connect_any(&self) -> Result<DynTransport, Failure> {
        let (registry, url) = (transports(), self.tls.add_to(self.url.as_str())?);
        let connected = tokio::time::timeout(self.connect_timeout, registry.connect(&url)).await;
        let late = |_| {
            let text = format!("the broker did not answer within {:?}", self.connect_timeout);
            Failure::new(Exit::Connection, "Connect", text)
        };
        Ok(connected.map_err(late)??)
    }
}

/// Closes the connection, and returns the first of the two failures.
pub(crate) async fn close<T>(transport: &DynTransport, done: Result<T, Failure>) -> Result<T, Failure> {
    let closed = transport.close().await;
    let done = done?;
    closed?;
    Ok(done)
}

/// Parses the path of an entity. An error does not quote it: a URL in its place may have a password.
pub(crate) fn entity(text: &str) -> Result<EntityPath, consign::message::InvalidArgument> {
    EntityPath::new(text)
}

pub(crate) fn now() -> Timestamp {
    SystemClock::new().now().utc
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_tls_are_parameters_of_the_url() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a b&c.pem");
        File::create(&file).unwrap();
        let tls = ClientTls { tls_ca: Some(file.clone()), ..ClientTls::default() };
        let added = |url: &str| tls.add_to(url).unwrap();
        let parameter = format!("certificates={}", utf8_percent_encode(file.to_str().unwrap(), NON_ALPHANUMERIC));
        assert!(parameter.ends_with("a%20b%26c%2Epem"), "{parameter}");
        assert_eq!(added("amqps://host"), format!("amqps://host?{parameter}"));
        assert_eq!(added("tls://host?a=b"), format!("tls://host?a=b&{parameter}"));
        assert_eq!(ClientTls::default().add_to("nats://host").unwrap(), "nats://host");
        assert_eq!(tls.add_to("file:store").unwrap_err().to_string(), "`file:` has no --tls-ca");
        let (cert, key) = (Some(file.clone()), Some(file.clone()));
        let client = ClientTls { tls_client_cert: cert, tls_client_key: key, ..tls.clone() };
        let error = client.add_to("servicebus://a:b@host").unwrap_err();
        assert_eq!(error.to_string(), "`servicebus:` has no --tls-client-cert");
        let missing = ClientTls { tls_ca: Some(folder.path().join("none.pem")), ..ClientTls::default() };
        let error = missing.add_to("amqps://host").unwrap_err().to_string();
        assert!(error.starts_with("--tls-ca: ") && error.contains("none.pem: "), "{error}");
    }

    #[test]
    fn files_of_tls_require_tls() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ca.pem");
        File::create(&file).unwrap();
        let tls = ClientTls { tls_ca: Some(file), ..ClientTls::default() };
        for (scheme, with_tls) in [("amqp", "amqps"), ("AMQP", "amqps"), ("amqp10", "amqps10")] {
            let error = tls.add_to(&format!("{scheme}://host")).unwrap_err();
            assert!(error.exit == Exit::Usage && error.to_string().contains(&format!("use `{with_tls}:`")), "{error}");
        }
        assert!(tls.add_to("nats://host").unwrap().starts_with("tls://host?certificates="));
        assert!(tls.add_to("postgres://host").unwrap().ends_with("&sslmode=require"));
        let required = tls.add_to("postgresql://host?sslmode=require").unwrap();
        assert_eq!(required.matches("sslmode").count(), 1);
        for mode in ["disable", "prefer"] {
            assert_eq!(tls.add_to(&format!("postgres://host?sslmode={mode}")).unwrap_err().exit, Exit::Usage);
        }
    }

    #[test]
    fn passwords_are_not_in_texts() {
        let text = "unexpected argument 'amqp://guest:secret@host/%2f' found, see https://docs.rs/clap";
        assert_eq!(redact_urls(text), "unexpected argument 'amqp://…@host/%2f' found, see https://docs.rs/clap");
        assert_eq!(redact_urls("'nats://a:b@c:1?d=secret' is"), "'nats://…@c:1?…' is");
        let url: BrokerUrl = "nats://me:secret@one:4222".parse().unwrap();
        let redacted = url.redact("nats://me:secret@one:4222 refused the password secret");
        assert_eq!(redacted, "(the URL) refused the password …");
        assert!(!format!("{url:?}").contains("secret"));
        let url: BrokerUrl = "nats://me:a@one:4222".parse().unwrap();
        assert_eq!(url.redact("a server refused 'a', and then \"a\""), "… server refused '…', and then \"…\"");
    }

    #[test]
    fn passwords_of_arguments_are_not_in_texts() {
        for (argument, redacted) in [
            ("amqp://u:it's-secret@h/", "amqp://…@h/"),
            ("amqp://u:a \"secret\"@h/?password=it's-secret", "amqp://…@h/?…"),
            ("--url=nats://h?password=it's-secret#`secret`", "--url=nats://h?…"),
            ("https://docs.rs/", "https://docs.rs/"),
        ] {
            let text = redact_arguments(&format!("unexpected '{argument}' found"), [OsString::from(argument)]);
            assert_eq!(text, format!("unexpected '{redacted}' found"));
        }
    }
}
