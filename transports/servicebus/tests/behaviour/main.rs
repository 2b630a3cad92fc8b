//! What the suite of all transports does not show: tokens, lost connections, retries, streams and URLs.

#![expect(clippy::unwrap_used, reason = "a test")]

#[path = "../support/mod.rs"]
mod support;

mod administration;
mod administration_stub;
mod authorization;
mod cbs;
#[cfg(feature = "azure-core")]
mod entra;
mod lost;
mod receiving;
mod sending;
mod sessions;
mod settling;
mod streams;
mod too_large;
mod transactions;
mod unanswered;
mod unreadable;
mod urls;

use std::time::Duration;

use consign::{
    Message,
    administration::{Administration, QueueSettings},
    message::EntityPath,
    transport::{ReceiveMode, Sender, Transport},
};
use consign_servicebus::{ServiceBus, ServiceBusReceiver};

use crate::support::InMemory;

/// Longer than a lock of the tests, and shorter than the time that a server permits a link to idle.
const WHILE: Duration = Duration::from_secs(90);

fn path(name: &str) -> EntityPath {
    EntityPath::new(name).unwrap()
}

/// Creates the queue `orders`.
async fn create(server: &InMemory, settings: QueueSettings) -> EntityPath {
    let path = path("orders");
    Administration::create(server.broker(), &path, &settings.into()).await.unwrap();
    path
}

async fn send(service_bus: &ServiceBus, to: &EntityPath, bodies: &[&'static str]) {
    let sender = service_bus.sender(to).await.unwrap();
    for body in bodies {
        sender.send(Message::new(*body)).await.unwrap();
    }
}

async fn receiver(service_bus: &ServiceBus, from: &EntityPath) -> ServiceBusReceiver {
    service_bus.receiver(from, ReceiveMode::PeekLock).await.unwrap()
}

fn text(message: &Message) -> &str {
    std::str::from_utf8(message.payload().unwrap()).unwrap()
}

/// The messages of an entity, by the broker: active, locked.
async fn counts(server: &InMemory, path: &EntityPath) -> (usize, usize) {
    let counts = Administration::counts(server.broker(), path).await.unwrap();
    (counts.active, counts.locked)
}
