use axum::{Router, http::StatusCode, routing::any};

use super::{HttpOptions, web_socket};
use crate::Server;

/// Returns the routes of a listener. Further routers are merged here; one without a fallback, whose routes begin with a name that is not
/// that of an entity.
pub(crate) fn router(_server: &Server, options: &HttpOptions) -> Router {
    let routes = options.routes.clone().route(web_socket::PATH, any(web_socket::upgrade));
    routes.fallback(async || StatusCode::NOT_FOUND)
}
