//! The requests for entities and their messages.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    http::{HeaderMap, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use percent_encoding::percent_decode_str;

use super::{Http, administration, call::Call, messages, query::Query, refusal::Refusal};
use crate::browser::{is_loopback, is_of_another_site, is_of_browser};

/// Answers a request.
pub(super) async fn handle(State(http): State<Arc<Http>>, request: Request) -> Response {
    let answer = answer(&http, request).await;
    answer.unwrap_or_else(IntoResponse::into_response)
}

async fn answer(http: &Http, request: Request) -> Result<Response, Refusal> {
    let (mut parts, body) = request.into_parts();
    let segments = segments(&parts.uri)?;
    let query = Query::parse(parts.uri.query())?;
    let host = host(&parts.headers, &parts.uri)?;
    let scheme = if http.options.acceptor.has_tls() { "https" } else { "http" };
    check_browser(http, &parts.headers, &parts.uri)?;
    let (path, base) = (segments.join("/"), format!("{scheme}://{host}"));
    let ends_with_slash = parts.uri.path().ends_with('/');
    let place = parts.extensions.remove();
    let call = Call { headers: parts.headers, query, path, ends_with_slash, base, host, place };
    match messages::Operation::parse(&parts.method, &segments)? {
        Some(operation) => messages::run(http, operation, call, body).await,
        None => administration::run(http, &parts.method, &segments, call, body).await,
    }
}

/// The segments of the path, decoded.
fn segments(uri: &Uri) -> Result<Vec<String>, Refusal> {
    let decode = |segment: &str| {
        let decoded = percent_decode_str(segment).decode_utf8();
        decoded.map(std::borrow::Cow::into_owned).map_err(|_| Refusal::bad_request("The path is not UTF-8."))
    };
    let path = uri.path();
    let path = path.strip_prefix('/').unwrap_or(path);
    let path = path.strip_suffix('/').unwrap_or(path);
    let segments: Vec<_> = path.split('/').map(decode).collect::<Result<_, _>>()?;
    if segments.iter().any(String::is_empty) {
        return Err(Refusal::bad_request("A segment of the path is empty."));
    }
    Ok(segments)
}

/// Refuses the page of another site in a browser: a server on loopback may accept any key. The name of such a site may be made to
/// point to loopback, so that its page is of this host.
pub(super) fn check_browser(http: &Http, headers: &HeaderMap, uri: &Uri) -> Result<(), Refusal> {
    if headers.contains_key(header::ORIGIN) && is_of_another_site(headers, &host(headers, uri)?) {
        return Err(Refusal::new(StatusCode::FORBIDDEN, "The request is from the page of another site."));
    }
    if is_of_browser(headers) && !is_loopback(headers) && http.server.shared().is_open() {
        let text = "A server without keys answers the requests of browsers to a loopback name only.";
        return Err(Refusal::new(StatusCode::MISDIRECTED_REQUEST, text));
    }
    Ok(())
}

/// The host that the client has named, which is in the URLs of the answer.
fn host(headers: &HeaderMap, uri: &Uri) -> Result<String, Refusal> {
    let invalid = || Refusal::bad_request("The Host header is missing or invalid.");
    let mut hosts = headers.get_all(header::HOST).iter();
    let named = hosts.next().map(|host| host.to_str().map_err(|_| invalid())).transpose()?;
    if hosts.next().is_some() {
        return Err(invalid());
    }
    let host = uri.authority().map(axum::http::uri::Authority::as_str).or(named).ok_or_else(invalid)?;
    let is_host = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b':' | b'[' | b']');
    if host.is_empty() || !host.bytes().all(is_host) {
        return Err(invalid());
    }
    Ok(host.to_owned())
}
