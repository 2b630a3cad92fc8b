//! The servers of a URL, and the identity of the client there.

use async_nats::ServerAddr;

/// The servers of `nats://user:password@one:4222,two:4222`.
pub(crate) struct Servers {
    /// Without the identity, which the client does not read there, and would write into its log.
    pub(crate) addresses: Vec<ServerAddr>,
    /// Also of servers that are not in the list, which the client learns from the others.
    pub(crate) requires_tls: bool,
    pub(crate) identity: Option<Identity>,
}

/// Who connects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Identity {
    User { name: String, password: String },
    Token(String),
}

/// The form of a URL.
pub(crate) const FORM: &str =
    "expected `nats://` or `tls://`, and then hosts with or without a port, separated by commas";
const ONE_SCHEME: &str = "expected the same scheme for all servers";
const ONE_IDENTITY: &str = "expected the same user for all servers";
const ESCAPES: &str = "expected two hexadecimal digits after each `%` of the user and the password, and UTF-8";

impl Servers {
    /// Parses a list of servers. The scheme and the user of the first are those of all.
    ///
    /// # Errors
    ///
    /// The form that is expected. No part of the URL is in it.
    pub(crate) fn parse(url: &str) -> Result<Self, &'static str> {
        let (scheme, _) = url.split_once("://").unwrap_or(("nats", url));
        let scheme = scheme.trim().to_ascii_lowercase();
        if scheme != "nats" && scheme != "tls" {
            return Err(FORM);
        }
        let (mut addresses, mut identity) = (Vec::new(), None);
        for server in url.split(',') {
            let (own, authority) = server.trim().split_once("://").unwrap_or((&scheme, server.trim()));
            if !own.eq_ignore_ascii_case(&scheme) {
                return Err(ONE_SCHEME);
            }
            let (user, host) = authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
            if let Some(user) = user {
                let user = Identity::parse(user)?;
                if identity.get_or_insert_with(|| user.clone()) != &user {
                    return Err(ONE_IDENTITY);
                }
            }
            let host = host.strip_suffix('/').unwrap_or(host);
            if host.is_empty() || host.starts_with(':') || host.contains(['/', '?', '#']) {
                return Err(FORM);
            }
            addresses.push(format!("{scheme}://{host}").parse().map_err(|_| FORM)?);
        }
        Ok(Self { addresses, requires_tls: scheme == "tls", identity })
    }
}

impl Identity {
    /// Parses a user with a password, or a token.
    fn parse(text: &str) -> Result<Self, &'static str> {
        match text.split_once(':') {
            Some((name, password)) => Ok(Self::User { name: decoded(name)?, password: decoded(password)? }),
            None => Ok(Self::Token(decoded(text)?)),
        }
    }
}

/// Percent-decodes a part of a URL.
fn decoded(text: &str) -> Result<String, &'static str> {
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let digits = part.get(..2).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        let digits = digits.ok_or(ESCAPES)?;
        bytes.push(u8::from_str_radix(digits, 16).map_err(|_| ESCAPES)?);
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    String::from_utf8(bytes).map_err(|_| ESCAPES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> (Vec<String>, bool, Option<Identity>) {
        let servers = Servers::parse(url).unwrap();
        let addresses = servers.addresses.into_iter().map(|address| address.into_inner().to_string()).collect();
        (addresses, servers.requires_tls, servers.identity)
    }

    #[test]
    fn the_scheme_and_the_user_of_the_first_server_are_those_of_all() {
        let user = Identity::User { name: "a".into(), password: "b:,@ %".into() };
        for url in
            ["TLS://a:b%3A%2c%40%20%25@one:4222,two", "tls://a:b:%2C%40%20%25@one:4222, tls://a:b%3A%2C%40%20%25@two/"]
        {
            let servers = ["tls://one:4222".into(), "tls://two".into()];
            assert_eq!(parse(url), (servers.into(), true, Some(user.clone())), "{url}");
        }
        assert_eq!(parse("one"), (vec!["nats://one".into()], false, None));
        assert_eq!(
            parse("nats://t%C3%A9@[::1]:1"),
            (vec!["nats://[::1]:1".into()], false, Some(Identity::Token("té".into())))
        );
    }

    #[test]
    fn no_part_of_a_refused_url_is_in_the_error() {
        for (url, expected) in [
            ("", FORM),
            ("http://secret", FORM),
            ("nats://", FORM),
            ("nats://:4222", FORM),
            ("nats://one,", FORM),
            ("nats://one:secret", FORM),
            ("nats://one/secret", FORM),
            ("nats://one,two/secret?a", FORM),
            ("tls://one,nats://two", ONE_SCHEME),
            ("nats://a:secret@one,a:other@two", ONE_IDENTITY),
            ("nats://a:secret%@one", ESCAPES),
            ("nats://a:secret%+1@one", ESCAPES),
            ("nats://a:secret%é@one", ESCAPES),
            ("nats://secret%ff@one", ESCAPES),
        ] {
            assert_eq!(Servers::parse(url).err(), Some(expected), "{url}");
        }
    }
}
