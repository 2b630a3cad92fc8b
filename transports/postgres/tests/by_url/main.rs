//! The broker by its URL, through the traits alone.
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod entities;
mod messages;
mod refused;
mod rules;
#[path = "../support/server.rs"]
mod server;
mod sessions;
mod update;

use std::time::Duration;

use consign::{
    Message,
    administration::{Administration, EntitySettings},
    message::EntityPath,
    transport::{
        Delivery, DynLease, DynReceiver, DynTransport, ReceiveMode, ReceiverExt, Sender, Transport, TransportRegistry,
    },
};
use consign_postgres::connector;

use crate::server::Schema;

/// A schema of a test, with one connected process.
struct Fixture {
    transport: DynTransport,
    schema: Schema,
    server: String,
}

impl Fixture {
    async fn new() -> Option<Self> {
        let server = server::url().await?;
        let schema = Schema::new(&server);
        let transport = connect(&url(&server, &schema)).await;
        Some(Self { transport, schema, server })
    }

    fn url(&self) -> String {
        url(&self.server, &self.schema)
    }

    /// As another process has it.
    async fn other(&self) -> DynTransport {
        connect(&self.url()).await
    }

    async fn create(&self, name: &str, settings: impl Into<EntitySettings>) -> EntityPath {
        let path = path(name);
        self.transport.create(&path, &settings.into()).await.unwrap();
        path
    }

    async fn end(self) {
        self.schema.end().await;
    }
}

fn url(server: &str, schema: &str) -> String {
    let separator = if server.contains('?') { '&' } else { '?' };
    format!("{server}{separator}schema={schema}&connections=4&poll_every=100ms&grace=300ms")
}

async fn connect(url: &str) -> DynTransport {
    TransportRegistry::new().with(connector()).connect(url).await.unwrap()
}

fn path(path: &str) -> EntityPath {
    EntityPath::new(path).unwrap()
}

async fn send(transport: &DynTransport, path: &EntityPath, messages: impl IntoIterator<Item = Message>) {
    let sender = transport.sender(path).await.unwrap();
    for message in messages {
        sender.send(message).await.unwrap();
    }
}

async fn receiver(transport: &DynTransport, path: &EntityPath) -> DynReceiver {
    transport.receiver(path, ReceiveMode::PeekLock).await.unwrap()
}

async fn receive(receiver: &mut DynReceiver) -> Delivery<DynLease> {
    receiver.receive_within(Duration::from_secs(10)).await.unwrap()
}

fn text(message: &Message) -> &[u8] {
    message.payload().unwrap_or_default()
}
