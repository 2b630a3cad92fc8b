//! Clients and servers on streams, through the public API, against a small broker with peek-lock.

#![allow(clippy::unwrap_used)]

mod cancel;
mod cuts;
mod exchange;
mod node;
mod timeouts;
mod writable;

use consign_amqp::{
    bytes::Bytes,
    client::{Connection, Options, ReceiverLink, SenderLink, Session},
    codec::Encoder,
    message::{Data, EncodedMessage, Section},
    types::DeliveryState,
};
use node::Node;
use tokio::io::DuplexStream;

/// The two ends of a stream with a buffer of so many bytes, one of them served by the node.
fn stream(node: &Node, buffer: usize) -> DuplexStream {
    let (client, server) = tokio::io::duplex(buffer);
    tokio::spawn(node.clone().serve(server));
    client
}

async fn connect(node: &Node) -> Connection {
    Connection::open(stream(node, 4_096), Options::new("client")).await.unwrap()
}

async fn sender(session: &Session, address: &str) -> SenderLink {
    session.attach_sender(format!("to {address}"), address).await.unwrap()
}

async fn receiver(session: &Session, address: &str) -> ReceiverLink {
    session.attach_receiver(format!("from {address}"), address).await.unwrap()
}

/// A message with a body.
fn message(body: impl Into<Bytes>) -> Bytes {
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes);
    encoder.encode(&Data(body.into().into()));
    encoder.finish().unwrap();
    bytes.into()
}

/// The body's section of a message, and its delivery count.
fn read(message: Bytes) -> (Bytes, u32) {
    let message = EncodedMessage::split(message).unwrap();
    let count = message.header().unwrap().map_or(0, |header| header.delivery_count);
    (message.from_section(Section::Body), count)
}

fn accepted() -> DeliveryState {
    consign_amqp::types::Accepted {}.into()
}
