use std::{fmt, io, net::SocketAddr, path::PathBuf};

use consign_broker::StorageError;
use consign_server::{ShortKey, config::ConfigError};

/// Why the server did not start, or ended. It has no key.
#[derive(Debug)]
pub(crate) enum Error {
    Config(ConfigError),
    /// The entities of a file cannot be created or changed.
    Entities {
        file: Option<PathBuf>,
        error: ConfigError,
    },
    Storage {
        folder: PathBuf,
        error: StorageError,
    },
    Listen {
        address: SocketAddr,
        option: &'static str,
        error: io::Error,
    },
    NoKeys(std::net::IpAddr),
    PlainTcp(std::net::IpAddr),
    Pem {
        file: PathBuf,
        text: String,
    },
    NoProvider,
    Tls(rustls::Error),
    Io(io::Error),
    /// A file that was named by an option, or that is beside the store.
    File {
        file: PathBuf,
        error: io::Error,
    },
    ShortKey {
        file: PathBuf,
        error: ShortKey,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(error) | Self::Entities { file: None, error } => error.fmt(f),
            Self::Entities { file: Some(file), error } => write!(f, "{}: {error}", file.display()),
            Self::Storage { error, .. } if error.folder().is_some() => error.fmt(f),
            Self::Storage { folder, error } => write!(f, "{}: {error}", folder.display()),
            Self::Listen { address, option, error } if error.kind() == io::ErrorKind::AddrInUse => {
                write!(f, "port {} of {} is in use: choose another one with {option}", address.port(), address.ip())
            }
            Self::Listen { address, option, error } => write!(f, "cannot listen on {address} ({option}): {error}"),
            Self::NoKeys(host) => {
                write!(f, "{host} is not a loopback address: clients from elsewhere need keys, which --keys names")
            }
            Self::PlainTcp(host) => write!(
                f,
                "{host} is not a loopback address, and without TLS keys and messages are not encrypted: \
                 give --tls-cert and --tls-key, or --allow-plain-tcp"
            ),
            Self::Pem { file, text } => write!(f, "{}: {text}", file.display()),
            Self::NoProvider => f.write_str(
                "TLS needs a cryptography provider, and this program was built without one: \
                 build it with the feature tls-aws-lc or tls-ring",
            ),
            Self::Tls(error) => write!(f, "the certificate and its key cannot be used: {error}"),
            Self::Io(error) => error.fmt(f),
            Self::File { file, error } => write!(f, "{}: {error}", file.display()),
            Self::ShortKey { file, error } => write!(f, "{}: {error}", file.display()),
        }
    }
}

impl From<ConfigError> for Error {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
