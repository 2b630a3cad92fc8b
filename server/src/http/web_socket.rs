//! AMQP over WebSocket: the upgrade of a connection of HTTP.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

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
pub(super) struct Upgrade(Arc<State>);

#[derive(Default)]
struct State {
    upgrade: Mutex<Option<OnUpgrade>>,
    is_upgraded: AtomicBool,
}

impl Upgrade {
    fn put(&self, upgrade: OnUpgrade) {
        *self.0.upgrade.lock() = Some(upgrade);
        self.0.is_upgraded.store(true, Ordering::Relaxed);
    }

    pub(super) fn take(&self) -> Option<OnUpgrade> {
        self.0.upgrade.lock().take()
    }

    /// Returns whether the connection has left HTTP.
    pub(super) fn is_upgraded(&self) -> bool {
        self.0.is_upgraded.load(Ordering::Relaxed)
    }
}

/// Answers the upgrade of a client.
pub(super) async fn upgrade(Extension(upgrade): Extension<Upgrade>, mut request: Request) -> Response {
    let answered = WebSocketOptions::service_bus().answer(&request);
    if answered.is_ok() {
        upgrade.put(hyper::upgrade::on(&mut request));
    }
    answered.unwrap_or_else(|refusal| refusal).map(|()| Body::empty()).into_response()
}
