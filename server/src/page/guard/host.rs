use std::net::IpAddr;

use axum::http::{HeaderMap, header, uri::Authority};

/// Whether a request was sent to a loopback name. A site whose name is made to point to loopback is sent by its own name.
pub(super) fn is_loopback(headers: &HeaderMap) -> bool {
    let mut hosts = headers.get_all(header::HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return false };
    let Some(host) = host.to_str().ok().and_then(|host| host.parse::<Authority>().ok()) else { return false };
    let name = host.host();
    if name.eq_ignore_ascii_case("localhost") {
        return true;
    }
    let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn only_loopback_names_are_accepted() {
        for (host, is_accepted) in [
            ("localhost", true),
            ("LOCALHOST:8080", true),
            ("127.0.0.1:1", true),
            ("127.9.9.9", true),
            ("[::1]:8080", true),
            ("example.org", false),
            ("localhost.example.org", false),
            ("127.0.0.1.example.org:80", false),
            ("10.0.0.1", false),
            ("user@example.org", false),
            ("", false),
        ] {
            let headers = HeaderMap::from_iter([(header::HOST, HeaderValue::from_static(host))]);
            assert_eq!(is_loopback(&headers), is_accepted, "{host}");
        }
        assert!(!is_loopback(&HeaderMap::new()));
    }
}
