//! Requests of browsers. A page of any site can send them to a server on the machine of its user.

use std::net::IpAddr;

use axum::http::{HeaderMap, header, uri::Authority};

/// Whether a request was sent to a loopback name. A site whose name is made to point to loopback is sent by its own name.
pub(crate) fn is_loopback(headers: &HeaderMap) -> bool {
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

/// Whether a browser may have sent a request. A page cannot leave these headers out, and the SDKs do not send them, except for
/// `Origin` alone over WebSocket.
#[cfg(any(feature = "http", feature = "operations"))]
pub(crate) fn is_of_browser(headers: &HeaderMap) -> bool {
    let has = |name: &str| headers.contains_key(name);
    has("accept-language") || has("sec-fetch-site") || (has("origin") && has("user-agent"))
}

/// Whether a request is of the page of another site.
#[cfg(feature = "http")]
pub(crate) fn is_of_another_site(headers: &HeaderMap, host: &str) -> bool {
    let mut origins = headers.get_all(header::ORIGIN).iter();
    let Some(origin) = origins.next() else { return false };
    let origin = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
    let is_own = origin.is_some_and(|(_, origin)| origin.eq_ignore_ascii_case(host));
    !is_own || origins.next().is_some()
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
