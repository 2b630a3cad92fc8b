//! Endpoints for operators over HTTP: health and metrics.
//!
//! | path | answer |
//! |---|---|
//! | `/health/live` | 200 as long as the process answers |
//! | `/health/ready`, `/health` | 200 if the broker accepts calls; 503 after its disk has failed. During a shutdown it is 503, and new connections are refused |
//! | `/metrics` | the [metrics], as text of `OpenMetrics` |
//!
//! [`Health`] has the health endpoints of any transport: `/health/ready` is 503 while the broker behind it does not answer.
//!
//! With a key, `/metrics` needs the header `Authorization: Bearer KEY`. Without one, a request of a browser to a name that is not one
//! of loopback is 421. The health endpoints need no key, and report nothing else.
//!
//! ```no_run
//! use consign_server::{Server, operations::Operations};
//!
//! # async fn run() -> std::io::Result<()> {
//! let server = Server::builder().build();
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:9090").await?;
//! axum::serve(listener, Operations::new(server).router()).await
//! # }
//! ```

mod health;
pub mod metrics;

use std::sync::Arc;

use axum::{
    Router,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};

pub use self::health::Health;
use self::metrics::Metrics;
use crate::{
    Server,
    access::AccessKey,
    browser::{is_loopback, is_of_browser},
    log::warn_of,
};

/// The endpoints of one server.
#[derive(Clone, Debug)]
pub struct Operations {
    server: Server,
    key: Option<AccessKey>,
    max_entities: usize,
    has_metrics: bool,
}

impl Operations {
    /// The default of [`max_entities`](Self::max_entities): 1,000.
    pub const MAX_ENTITIES: usize = 1_000;

    /// Creates the endpoints of a server, without a key.
    #[must_use]
    pub fn new(server: Server) -> Self {
        Self { server, key: None, max_entities: Self::MAX_ENTITIES, has_metrics: true }
    }

    /// Requires this key for the metrics.
    #[must_use]
    pub fn key(mut self, key: AccessKey) -> Self {
        self.key = Some(key);
        self
    }

    /// Sets how many entities have metrics of their own, in the order of their paths: 1,000 by default. It bounds the number
    /// of series, since clients may create entities.
    #[must_use]
    pub fn max_entities(mut self, max: usize) -> Self {
        self.max_entities = max;
        self
    }

    /// Leaves the metrics out: for a listener that others than operators reach, without a key.
    #[must_use]
    pub fn health_only(mut self) -> Self {
        self.has_metrics = false;
        self
    }

    /// Returns the routes.
    pub fn router<S>(self) -> Router<S> {
        let health = Router::new()
            .route("/health", get(ready))
            .route("/health/live", get(live))
            .route("/health/ready", get(ready));
        let routes = if self.has_metrics { health.route("/metrics", get(scrape)) } else { health };
        routes.with_state(Arc::new(self))
    }
}

async fn live() -> &'static str {
    "live\n"
}

async fn ready(State(operations): State<Arc<Operations>>) -> (StatusCode, &'static str) {
    if operations.server.is_ready() {
        (StatusCode::OK, "ready\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "not ready\n")
    }
}

async fn scrape(State(operations): State<Arc<Operations>>, headers: HeaderMap) -> Response {
    if operations.key.is_none() && is_of_browser(&headers) && !is_loopback(&headers) {
        let text = "Without a key, the metrics are shown to browsers under a loopback name only.\n";
        return (StatusCode::MISDIRECTED_REQUEST, text).into_response();
    }
    if let Some(key) = &operations.key {
        let sent = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let sent =
            sent.and_then(|value| value.split_once(' ')).filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        if !sent.is_some_and(|(_, token)| key.is(token.trim())) {
            if headers.contains_key(header::AUTHORIZATION) {
                warn_of!("HttpNotAuthenticated", path = "/metrics", "a request without the operator key was refused");
            }
            return (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")]).into_response();
        }
    }
    let metrics = Metrics::of(&operations.server, operations.max_entities);
    ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE), (header::CACHE_CONTROL, "no-store")], metrics.to_text())
        .into_response()
}
