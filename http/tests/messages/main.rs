//! Messages as requests and responses: what a sender sets comes back, and what is lossy is lost as the rules say.
#![allow(clippy::unwrap_used)]

mod batches;
mod random;
mod requests;
mod responses;

use http::{HeaderMap, HeaderName, HeaderValue};

fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    let pair = |(name, value): &(&str, &str)| {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        (name, HeaderValue::from_bytes(value.as_bytes()).unwrap())
    };
    let mut headers = HeaderMap::new();
    for (name, value) in pairs.iter().map(pair) {
        headers.append(name, value);
    }
    headers
}
