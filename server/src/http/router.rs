use std::sync::Arc;

use axum::{
    Router,
    extract::{Request, State},
    http::{HeaderValue, StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::any,
};

use super::{Http, HttpOptions, framing::Framing, locks::Delivered, namespace, refusal::Refusal, web_socket};
use crate::Server;

/// Returns the routes of a listener. Further routers are merged here; one without a fallback, whose routes begin with a name that is not
/// that of an entity.
pub(crate) fn router(server: &Server, options: &HttpOptions) -> Router {
    let http = Http { server: server.clone(), options: options.clone(), locks: Delivered::default() };
    web_socket::PATHS
        .into_iter()
        .fold(Router::new(), |router, path| router.route(path, any(web_socket::upgrade)))
        .fallback(namespace::handle)
        .with_state(Arc::new(http))
        .merge(options.routes.clone())
        .layer(middleware::from_fn(close_after_chunked))
        .layer(middleware::from_fn_with_state(options.header_size(), check_head))
}

/// Returns the further routes of a listener without those of a server.
pub(super) fn routes_alone(options: &HttpOptions) -> Router {
    let routes = options.routes.clone().layer(middleware::from_fn(close_after_chunked));
    routes.layer(middleware::from_fn_with_state(options.header_size(), check_head))
}

/// Refuses a request line with headers that are too large. hyper only limits its buffer, which may have more than the limit after a read.
async fn check_head(State(limit): State<usize>, request: Request, next: Next) -> Response {
    // With the spaces and line ends, and the empty line.
    let uri = request.uri();
    let path = uri.path_and_query().map_or(0, |path| path.as_str().len());
    let origin =
        uri.scheme_str().map_or(0, |scheme| scheme.len() + 3) + uri.authority().map_or(0, |it| it.as_str().len());
    let line = request.method().as_str().len() + origin + path + " HTTP/1.1\r\n\r\n ".len();
    let headers = request.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + ": \r\n".len());
    if headers.fold(line, usize::saturating_add) > limit {
        let text = format!("The request line and the headers have more than {limit} bytes.");
        return Refusal::new(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, text).into_response();
    }
    next.run(request).await
}

/// Refuses a request with `Content-Length` beside `Transfer-Encoding`, and closes the connection after one with `Transfer-Encoding`: an
/// intermediary may disagree about where the next request begins.
async fn close_after_chunked(request: Request, next: Next) -> Response {
    if !request.headers().contains_key(header::TRANSFER_ENCODING) {
        return next.run(request).await;
    }
    let is_alone = request.extensions().get().is_some_and(Framing::is_chunked_alone);
    let mut response = if is_alone {
        next.run(request).await
    } else {
        Refusal::bad_request("A request has a Content-Length or a Transfer-Encoding, not both.").into_response()
    };
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}
