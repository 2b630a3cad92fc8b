//! AMQP over WebSocket: the upgrade of a connection of HTTP.

use std::sync::Arc;

use axum::{
    Extension,
    body::Body,
    extract::Request,
    response::{IntoResponse, Response},
};
use consign_amqp::stream::WebSocketOptions;
use hyper::upgrade::OnUpgrade;
use parking_lot::Mutex;

pub(super) const PATH: &str = "/$servicebus/websocket";

/// Where a handler leaves the upgrade of its connection. The task of the connection serves it.
#[derive(Clone, Default)]
pub(super) struct Upgrade(Arc<Mutex<Option<OnUpgrade>>>);

impl Upgrade {
    pub(super) fn take(&self) -> Option<OnUpgrade> {
        self.0.lock().take()
    }
}

/// Answers the upgrade of a client.
pub(super) async fn upgrade(Extension(upgrade): Extension<Upgrade>, mut request: Request) -> Response {
    let answered = WebSocketOptions::service_bus().answer(&request);
    if answered.is_ok() {
        *upgrade.0.lock() = Some(hyper::upgrade::on(&mut request));
    }
    answered.unwrap_or_else(|refusal| refusal).map(|()| Body::empty()).into_response()
}
