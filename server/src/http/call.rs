use axum::http::HeaderMap;

use super::{connections::Place, query::Query};

/// The parts of a request that all handlers need.
pub(super) struct Call {
    pub(super) headers: HeaderMap,
    pub(super) query: Query,
    /// The path, decoded. A token is for it, or for what is above it.
    pub(super) path: String,
    /// Whether the path has a slash at its end.
    pub(super) ends_with_slash: bool,
    /// The URL of the namespace, without a slash at its end.
    pub(super) base: String,
    /// The host in it.
    pub(super) host: String,
    /// The connection of the request.
    pub(super) place: Option<Place>,
}
