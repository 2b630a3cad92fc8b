use std::sync::Arc;

use axum::{
    Router,
    extract::Request,
    http::{HeaderValue, header},
    middleware::{self, Next},
    response::Response,
    routing::any,
};

use super::{Http, HttpOptions, locks::Delivered, namespace, web_socket};
use crate::Server;

/// Returns the routes of a listener. Further routers are merged here; one without a fallback, whose routes begin with a name that is not
/// that of an entity.
pub(crate) fn router(server: &Server, options: &HttpOptions) -> Router {
    let http = Http { server: server.clone(), options: options.clone(), locks: Delivered::default() };
    Router::new()
        .route(web_socket::PATH, any(web_socket::upgrade))
        .fallback(namespace::handle)
        .with_state(Arc::new(http))
        .merge(options.routes.clone())
        .layer(middleware::from_fn(close_after_chunked))
}

/// Closes the connection after a request with a `Transfer-Encoding`. A `Content-Length` beside it was ignored, so that an intermediary may
/// disagree about where the next request begins.
async fn close_after_chunked(request: Request, next: Next) -> Response {
    let is_chunked = request.headers().contains_key(header::TRANSFER_ENCODING);
    let mut response = next.run(request).await;
    if is_chunked {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}
