//! AMQP over WebSocket: the upgrade of a connection of HTTP.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use axum::{
    Extension,
    body::Body,
    extract::{self, Request},
    response::{IntoResponse, Response},
};
use consign_amqp::stream::{Subprotocol, WebSocketOptions};
use hyper::upgrade::OnUpgrade;
use parking_lot::Mutex;

use super::{Http, namespace::check_browser};

/// With a slash for Azure.Messaging.ServiceBus (.NET).
pub(super) const PATHS: [&str; 2] = ["/$servicebus/websocket", "/$servicebus/websocket/"];

/// The SDKs offer the subprotocol of the service; the documentation of azservicebus (Go) has a client that offers `amqp`.
pub(super) fn options() -> WebSocketOptions {
    WebSocketOptions::service_bus().subprotocols([Subprotocol::ServiceBus, Subprotocol::Amqp])
}

/// Where a handler leaves the upgrade of its connection. The task of the connection serves it.
#[derive(Clone, Default)]
pub(super) struct Upgrade(Arc<State>);

#[derive(Default)]
struct State {
    upgrade: Mutex<Option<OnUpgrade>>,
    is_upgraded: AtomicBool,
    is_taken: AtomicBool,
}

impl Upgrade {
    pub(super) fn put(&self, upgrade: OnUpgrade) {
        *self.0.upgrade.lock() = Some(upgrade);
        self.0.is_upgraded.store(true, Ordering::Relaxed);
    }

    /// Takes the upgrade, after the last answer of HTTP was written.
    pub(super) fn take(&self) -> Option<OnUpgrade> {
        self.0.is_taken.store(true, Ordering::Relaxed);
        self.0.upgrade.lock().take()
    }

    /// Returns whether AMQP is written from now on, and not the answer to the upgrade.
    pub(super) fn is_taken(&self) -> bool {
        self.0.is_taken.load(Ordering::Relaxed)
    }

    /// Returns whether what is read is no longer HTTP.
    pub(super) fn is_upgraded(&self) -> bool {
        self.0.is_upgraded.load(Ordering::Relaxed)
    }
}

/// Answers the upgrade of a client.
pub(super) async fn upgrade(
    extract::State(http): extract::State<Arc<Http>>,
    Extension(upgrade): Extension<Upgrade>,
    mut request: Request,
) -> Response {
    // A browser lets the page of any site open a WebSocket.
    if let Err(refusal) = check_browser(&http, request.headers(), request.uri()) {
        return refusal.into_response();
    }
    let answered = options().answer(&request);
    if answered.is_ok() {
        upgrade.put(hyper::upgrade::on(&mut request));
    }
    answered.unwrap_or_else(|refusal| refusal).map(|()| Body::empty()).into_response()
}
