//! `Endpoint=sb://host/;SharedAccessKeyName=name;SharedAccessKey=key;EntityPath=queue`.

use std::{error, fmt, str::FromStr};

use consign_core::message::EntityPath;

/// A connection string of Azure Service Bus.
///
/// | key | value |
/// |---|---|
/// | `Endpoint` | `sb://host`, with a port for a server on another one |
/// | `SharedAccessKeyName`, `SharedAccessKey` | the name of a key, and the key |
/// | `SharedAccessSignature` | a signed token, instead of a key |
/// | `EntityPath` | the only entity that the key is for |
/// | `UseDevelopmentEmulator` | `true` for a server without TLS, such as `consign serve` or Microsoft's emulator |
///
/// Keys may have any case, other keys are ignored. `Debug` shows no key and no signature.
///
/// ```
/// use consign_servicebus::ConnectionString;
///
/// let text = "Endpoint=sb://example.servicebus.windows.net/;SharedAccessKeyName=root;SharedAccessKey=c2VjcmV0;EntityPath=orders";
/// let parsed: ConnectionString = text.parse()?;
/// assert_eq!(parsed.host(), "example.servicebus.windows.net");
/// assert_eq!(parsed.entity_path().map(ToString::to_string).as_deref(), Some("orders"));
/// # Ok::<(), consign_servicebus::ConnectionStringError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct ConnectionString {
    pub(crate) host: String,
    pub(crate) port: Option<u16>,
    pub(crate) secret: Secret,
    pub(crate) entity_path: Option<EntityPath>,
    pub(crate) is_emulator: bool,
}

#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Secret {
    Key { name: String, key: String },
    Signature(String),
}

/// Why a text is not a connection string. It has no part of the text but the names of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectionStringError {
    /// A part is not `key=value`.
    Malformed,
    /// The key stands twice.
    Duplicate(&'static str),
    /// The key is missing.
    Missing(&'static str),
    /// The value of the key cannot be read.
    Invalid(&'static str),
    /// There are a key and a signature.
    KeyAndSignature,
}

const ENDPOINT: &str = "Endpoint";
const KEY_NAME: &str = "SharedAccessKeyName";
const KEY: &str = "SharedAccessKey";
const SIGNATURE: &str = "SharedAccessSignature";
const ENTITY_PATH: &str = "EntityPath";
const EMULATOR: &str = "UseDevelopmentEmulator";
const KEYS: [&str; 6] = [ENDPOINT, KEY_NAME, KEY, SIGNATURE, ENTITY_PATH, EMULATOR];

impl ConnectionString {
    /// Returns the host.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the entity that the string is for, if it names one.
    #[must_use]
    pub fn entity_path(&self) -> Option<&EntityPath> {
        self.entity_path.as_ref()
    }

    /// Returns whether the server is one for development, without TLS.
    #[must_use]
    pub fn is_emulator(&self) -> bool {
        self.is_emulator
    }
}

impl FromStr for ConnectionString {
    type Err = ConnectionStringError;

    fn from_str(text: &str) -> Result<Self, ConnectionStringError> {
        let mut values: [Option<&str>; KEYS.len()] = [None; KEYS.len()];
        for part in text.split(';').map(str::trim).filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=').ok_or(ConnectionStringError::Malformed)?;
            let Some(index) = KEYS.iter().position(|known| known.eq_ignore_ascii_case(key.trim())) else { continue };
            if values[index].replace(value.trim()).is_some() {
                return Err(ConnectionStringError::Duplicate(KEYS[index]));
            }
        }
        let [endpoint, key_name, key, signature, entity_path, emulator] = values;
        let endpoint = endpoint.ok_or(ConnectionStringError::Missing(ENDPOINT))?;
        let (host, port) = address(endpoint).ok_or(ConnectionStringError::Invalid(ENDPOINT))?;
        let secret = match (key_name, key, signature) {
            (None, None, Some(signature)) => Secret::Signature(signature.to_owned()),
            (_, _, Some(_)) => return Err(ConnectionStringError::KeyAndSignature),
            (Some(name), Some(key), None) => Secret::Key { name: name.to_owned(), key: key.to_owned() },
            (None, Some(_), None) => return Err(ConnectionStringError::Missing(KEY_NAME)),
            (_, None, None) => return Err(ConnectionStringError::Missing(KEY)),
        };
        let entity_path = entity_path.filter(|path| !path.is_empty()).map(EntityPath::new).transpose();
        let entity_path = entity_path.map_err(|_| ConnectionStringError::Invalid(ENTITY_PATH))?;
        let is_emulator = match emulator {
            None => false,
            Some(text) => text.to_ascii_lowercase().parse().map_err(|_| ConnectionStringError::Invalid(EMULATOR))?,
        };
        Ok(Self { host, port, secret, entity_path, is_emulator })
    }
}

/// Reads `sb://host:port/`, also with the scheme of AMQP.
fn address(endpoint: &str) -> Option<(String, Option<u16>)> {
    let (scheme, rest) = endpoint.split_once("://")?;
    if !["sb", "amqp", "amqps"].iter().any(|known| known.eq_ignore_ascii_case(scheme)) {
        return None;
    }
    authority(rest.strip_suffix('/').unwrap_or(rest))
}

/// Reads `host:port` or `[::1]:port`.
pub(crate) fn authority(text: &str) -> Option<(String, Option<u16>)> {
    let (host, rest) = match text.strip_prefix('[') {
        Some(text) => text.split_once(']')?,
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    let is_host = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b':');
    if host.is_empty() || !host.bytes().all(is_host) {
        return None;
    }
    let port = match rest.strip_prefix(':') {
        Some(port) => Some(port.parse().ok().filter(|port| *port != 0)?),
        None if rest.is_empty() => None,
        None => return None,
    };
    Some((host.to_owned(), port))
}

impl fmt::Debug for ConnectionString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionString")
            .field("host", &self.host)
            .field("port", &self.port)
            .field("entity_path", &self.entity_path)
            .field("is_emulator", &self.is_emulator)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for ConnectionStringError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed => f.write_str("a connection string is `key=value` pairs, separated by `;`"),
            Self::Duplicate(key) => write!(f, "the connection string has `{key}` twice"),
            Self::Missing(key) => write!(f, "the connection string has no `{key}`"),
            Self::Invalid(key) => write!(f, "the value of `{key}` in the connection string cannot be read"),
            Self::KeyAndSignature => {
                write!(f, "the connection string has `{SIGNATURE}` besides `{KEY_NAME}` or `{KEY}`")
            }
        }
    }
}

impl error::Error for ConnectionStringError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<ConnectionString, ConnectionStringError> {
        text.parse()
    }

    #[test]
    fn a_key_may_contain_an_equals_sign_and_names_have_any_case() {
        let parsed = parse(
            "endpoint=sb://Example.net/; sharedaccesskeyname=root ;SHAREDACCESSKEY=c2Vj=cmV0==;\
             TransportType=Amqp;EntityPath=t/Subscriptions/s;",
        );
        let parsed = parsed.unwrap();
        assert_eq!((parsed.host.as_str(), parsed.port, parsed.is_emulator), ("Example.net", None, false));
        assert!(parsed.secret == Secret::Key { name: "root".into(), key: "c2Vj=cmV0==".into() });
        assert_eq!(parsed.entity_path.unwrap().as_str(), "t/Subscriptions/s");
    }

    #[test]
    fn an_emulator_has_a_port_in_its_endpoint() {
        let parsed = parse(
            "Endpoint=sb://127.0.0.1:5673;SharedAccessKeyName=any;SharedAccessKey=any;UseDevelopmentEmulator=True;",
        );
        let parsed = parsed.unwrap();
        assert_eq!((parsed.host.as_str(), parsed.port, parsed.is_emulator), ("127.0.0.1", Some(5_673), true));
        let parsed = parse("Endpoint=sb://[::1]:1/;SharedAccessSignature=SharedAccessSignature sr=a&sig=b").unwrap();
        assert_eq!((parsed.host.as_str(), parsed.port), ("::1", Some(1)));
        assert!(parsed.secret == Secret::Signature("SharedAccessSignature sr=a&sig=b".into()));
    }

    #[test]
    fn an_error_names_a_key_and_shows_no_value() {
        use ConnectionStringError::{Duplicate, Invalid, KeyAndSignature, Malformed, Missing};
        let key = "SharedAccessKeyName=cret;SharedAccessKey=cret";
        for (text, expected) in [
            ("cret".to_owned(), Malformed),
            (key.to_owned(), Missing(ENDPOINT)),
            (format!("Endpoint=cret;{key}"), Invalid(ENDPOINT)),
            (format!("Endpoint=http://cret;{key}"), Invalid(ENDPOINT)),
            (format!("Endpoint=sb://cret:0;{key}"), Invalid(ENDPOINT)),
            (format!("Endpoint=sb://cret/cret;{key}"), Invalid(ENDPOINT)),
            (format!("Endpoint=sb://h;{key};{key}"), Duplicate(KEY_NAME)),
            ("Endpoint=sb://h".to_owned(), Missing(KEY)),
            ("Endpoint=sb://h;SharedAccessKey=cret".to_owned(), Missing(KEY_NAME)),
            ("Endpoint=sb://h;SharedAccessKeyName=cret".to_owned(), Missing(KEY)),
            (format!("Endpoint=sb://h;{key};SharedAccessSignature=cret"), KeyAndSignature),
            (format!("Endpoint=sb://h;{key};EntityPath=cret//cret"), Invalid(ENTITY_PATH)),
            (format!("Endpoint=sb://h;{key};UseDevelopmentEmulator=cret"), Invalid(EMULATOR)),
        ] {
            let error = parse(&text).unwrap_err();
            assert_eq!(error, expected, "{text}");
            assert!(!format!("{error} {error:?}").contains("cret"), "{error}");
        }
        let parsed = parse(&format!("Endpoint=sb://h;{key}")).unwrap();
        assert!(!format!("{parsed:?}").contains("cret"), "{parsed:?}");
    }
}
