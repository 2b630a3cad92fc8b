//! The address of one or several servers: `amqp10://user:password@one:5672,two:5672`.

use std::fmt;

use consign_core::transport::ErrorKind;

use crate::error::Failure;

/// The expected form, for errors. They have no part of the address: it may have a password in it.
pub(crate) const FORM: &str = "expected `amqp10://user:password@host:5672`, or `amqps10:`, with several hosts divided by commas, and percent-encoding \
     in UTF-8";

/// One host.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Server {
    pub(crate) host: String,
    pub(crate) port: u16,
}

/// Hosts, and what a client authenticates with.
#[derive(Clone)]
pub(crate) struct Servers {
    pub(crate) all: Vec<Server>,
    pub(crate) is_tls: bool,
    /// The user and the password.
    pub(crate) login: Option<(String, String)>,
}

impl Servers {
    /// Reads an address. The default port depends on the use of WebSocket.
    pub(crate) fn parse(address: &str, web_socket: bool) -> Result<Self, Failure> {
        Self::read(address, web_socket).ok_or_else(|| Failure::new(ErrorKind::InvalidArgument, FORM))
    }

    fn read(address: &str, web_socket: bool) -> Option<Self> {
        let (scheme, rest) = address.split_once("://")?;
        let is_tls = match scheme.to_ascii_lowercase().as_str() {
            "amqp10" => false,
            "amqps10" => true,
            _ => return None,
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (login, hosts) = match rest.rsplit_once('@') {
            Some((login, hosts)) => (Some(login), hosts),
            None => (None, rest),
        };
        let login = match login {
            None => None,
            Some(login) => {
                let (user, password) = login.split_once(':').unwrap_or((login, ""));
                Some((decoded(user)?, decoded(password)?))
            }
        };
        let port = match (web_socket, is_tls) {
            (false, false) => 5672,
            (false, true) => 5671,
            (true, false) => 80,
            (true, true) => 443,
        };
        let all = hosts.split(',').map(|host| server(host, port)).collect::<Option<_>>()?;
        Some(Self { all, is_tls, login })
    }
}

fn server(text: &str, port: u16) -> Option<Server> {
    let (host, rest) = match text.strip_prefix('[') {
        Some(text) => text.split_once(']')?,
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    let is_host = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b':');
    if host.is_empty() || !host.bytes().all(is_host) {
        return None;
    }
    let port = if rest.is_empty() { port } else { rest.strip_prefix(':')?.parse().ok().filter(|port| *port != 0)? };
    Some(Server { host: host.to_owned(), port })
}

fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        rest = tail;
        if first == b'%' {
            let (digits, tail) = rest.split_at_checked(2)?;
            let digits = std::str::from_utf8(digits).ok().filter(|text| text.bytes().all(|b| b.is_ascii_hexdigit()))?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = tail;
        } else {
            bytes.push(first);
        }
    }
    String::from_utf8(bytes).ok()
}

/// Host and port.
impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl fmt::Debug for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Servers").field("is_tls", &self.is_tls).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(address: &str, web_socket: bool) -> String {
        let Servers { all, is_tls, login } = Servers::parse(address, web_socket).unwrap();
        let servers: Vec<_> = all.iter().map(ToString::to_string).collect();
        format!("{is_tls} {login:?} {}", servers.join(" "))
    }

    #[test]
    fn hosts_share_a_login_and_have_the_port_of_the_scheme() {
        let expected = r#"true Some(("shop", "s,c@t")) one:5672 ::1:5673 three:5671"#;
        assert_eq!(shown("amqps10://shop:s%2Cc%40t@one:5672,[::1]:5673,three/", false), expected);
        assert_eq!(shown("AMQP10://127.0.0.1", false), "false None 127.0.0.1:5672");
        assert_eq!(shown("amqp10://one", true), "false None one:80");
        assert_eq!(shown("amqps10://one,two:1", true), "true None one:443 two:1");
    }

    #[test]
    fn no_error_has_a_part_of_the_address() {
        for address in [
            "secret",
            "amqp10:secret",
            "amqp://u:secret@one",
            "amqp10://u:secret@",
            "amqp10://u:secret@one,,two",
            "amqp10://u:secret@one:secret",
            "amqp10://u:secret@one:0",
            "amqp10://u:secret%@one",
            "amqp10://u:secret@one/vhost",
            "amqp10://u:se/cret",
            "amqp10://[secret",
        ] {
            let error = Servers::parse(address, false).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("cret"), "{address}: {error:?}");
        }
        let servers = Servers::parse("amqp10://u:secret@one", false).unwrap();
        assert!(!format!("{servers:?}").contains("secret"));
    }
}
