use std::sync::Arc;

use axum::{
    Router,
    extract::Request,
    http::{HeaderValue, header},
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
}

/// Returns the further routes of a listener without those of a server.
pub(super) fn routes_alone(options: &HttpOptions) -> Router {
    options.routes.clone().layer(middleware::from_fn(close_after_chunked))
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
