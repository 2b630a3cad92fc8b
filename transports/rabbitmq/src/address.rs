//! The address of one or several servers: `amqp://user:password@one:5672,two:5672/vhost`.

use consign_core::transport::ErrorKind;
use lapin::uri::AMQPUri;

use crate::error::Failure;

/// The expected form, for errors. They have no part of the address: it may have a password in it.
pub(crate) const FORM: &str = "expected `amqp://user:password@host:5672/vhost`, or `amqps:`, with several hosts divided by commas, and percent-encoding \
     in UTF-8";

/// Returns a URI for each host, in their order.
pub(crate) fn parse(address: &str) -> Result<Vec<AMQPUri>, Failure> {
    each(address).ok_or_else(|| Failure::new(ErrorKind::InvalidArgument, FORM))
}

fn each(address: &str) -> Option<Vec<AMQPUri>> {
    let (scheme, rest) = address.split_once("://")?;
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, rest) = rest.split_at(end);
    let (login, hosts) = match authority.rsplit_once('@') {
        Some((login, hosts)) => (format!("{login}@"), hosts),
        None => (String::new(), authority),
    };
    let uri = |host: &str| {
        // A missing host is only the local one if it is the only one.
        if host.is_empty() && hosts.contains(',') {
            return None;
        }
        let mut uri: AMQPUri = format!("{scheme}://{login}{host}{rest}").parse().ok()?;
        // `AMQPUri` reads an address of IPv6 as `localhost`.
        if let Some((host, _)) = host.strip_prefix('[').and_then(|host| host.split_once(']')) {
            host.clone_into(&mut uri.authority.host);
        }
        Some(uri)
    };
    hosts.split(',').map(uri).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(address: &str) -> Vec<String> {
        let one = |uri: AMQPUri| {
            let login = uri.authority.userinfo;
            format!(
                "{} {}:{} {}:{} {}",
                uri.scheme, login.username, login.password, uri.authority.host, uri.authority.port, uri.vhost
            )
        };
        parse(address).unwrap().into_iter().map(one).collect()
    }

    #[test]
    fn each_host_has_the_same_login_and_virtual_host() {
        let all = shown("amqps://shop:s%2Cc%40t@one:5672,[::1]:5673,three/orders?heartbeat=5");
        let expected = [
            "amqps shop:s,c@t one:5672 orders",
            "amqps shop:s,c@t ::1:5673 orders",
            "amqps shop:s,c@t three:5671 orders",
        ];
        assert_eq!(all, expected);
        assert_eq!(shown("amqp://127.0.0.1"), ["amqp guest:guest 127.0.0.1:5672 /"]);
    }

    #[test]
    fn no_error_has_a_part_of_the_address() {
        for address in [
            "amqp:secret",
            "amqp://u:secret@",
            "amqp://u:secret@one:secret/",
            "http://secret",
            "amqp://u:secret@one,,two",
            "secret",
        ] {
            if let Err(failure) = parse(address) {
                assert!(!format!("{failure} {failure:?}").contains("secret"), "{address}: {failure:?}");
            }
        }
        assert!(parse("amqp://u:secret@one,,two").is_err() && parse("http://secret").is_err());
    }
}
