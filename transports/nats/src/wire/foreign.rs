use async_nats::{HeaderMap, HeaderName, HeaderValue};

use super::name::is_own;

/// Copies headers of other clients: neither the server's nor this transport's.
pub(crate) fn foreign(from: Option<&HeaderMap>, to: &mut HeaderMap) {
    keep(from, to, |name| !is_own(name));
}

/// Copies headers, but not those of the server.
pub(crate) fn keep(from: Option<&HeaderMap>, to: &mut HeaderMap, is_kept: impl Fn(&str) -> bool) {
    for (name, values) in from.into_iter().flat_map(HeaderMap::iter) {
        let text: &str = name.as_ref();
        if !text.starts_with("Nats-") && is_kept(text) && to.get(name.clone()).is_none() {
            for value in values {
                to.append(HeaderName::clone(name), HeaderValue::clone(value));
            }
        }
    }
}
