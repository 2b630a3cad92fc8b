//! Which headers are application properties.

use consign_core::message::TraceContext;
use http::HeaderName;

/// Headers of HTTP and of programs between a client and a server.
const STANDARD: &[&str] = &[
    "accept",
    "age",
    "allow",
    "alt-svc",
    "authorization",
    "brokerproperties",
    "cache-control",
    "cache-status",
    "cdn-cache-control",
    "connection",
    "cookie",
    "date",
    "dnt",
    "etag",
    "expect",
    "expires",
    "forwarded",
    "from",
    "host",
    "http2-settings",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "keep-alive",
    "last-modified",
    "link",
    "location",
    "max-forwards",
    "origin",
    "pragma",
    "priority-control",
    "public-key-pins",
    "range",
    "referer",
    "referrer-policy",
    "refresh",
    "retry-after",
    "save-data",
    "server",
    "server-timing",
    "set-cookie",
    "strict-transport-security",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "upgrade-insecure-requests",
    "user-agent",
    "vary",
    "via",
    "warning",
    "www-authenticate",
    "x-content-type-options",
    "x-dns-prefetch-control",
    "x-frame-options",
    "x-prop-names",
    "x-real-ip",
    "x-request-id",
    "x-xss-protection",
];

/// How the names of headers begin that are no application properties either.
const PREFIXES: &[&str] =
    &["accept-", "access-control-", "content-", "proxy-", "sec-", "servicebus", "x-forwarded-", "x-ms-"];

/// Returns whether a header is an application property.
pub(super) fn is_property(name: &HeaderName) -> bool {
    let name = name.as_str();
    let is_authorization = name.starts_with("servicebus") && name.ends_with("authorization");
    let has_prefix = PREFIXES.iter().any(|prefix| *prefix != "servicebus" && name.starts_with(prefix));
    !(is_authorization || has_prefix || STANDARD.contains(&name))
}

/// Returns the application property of a header, whose name is in lower case. The only standard name of a property that is not
/// is restored, so that it is found.
pub(super) fn key(name: &HeaderName) -> &str {
    let name = name.as_str();
    if name.eq_ignore_ascii_case(TraceContext::DIAGNOSTIC_ID) { TraceContext::DIAGNOSTIC_ID } else { name }
}

/// Returns the header of an application property. None if a header cannot have that name, or is none of a property.
pub(super) fn header(key: &str) -> Option<HeaderName> {
    HeaderName::from_bytes(key.as_bytes()).ok().filter(is_property)
}
