//! Connections over TLS and WebSocket, through the public API.

#![allow(clippy::unwrap_used)]

mod backoff;
mod connect;
mod cuts;
#[path = "../driver/node.rs"]
#[allow(dead_code, reason = "the tests of the driver use all of it")]
mod node;
mod part;
mod peers;
mod time;
mod tls;
mod web_socket;

use consign_amqp::{
    bytes::Bytes,
    client::{Connection, Connector, Error, Options},
    codec::Encoder,
    engine,
    message::{Data, EncodedMessage, Section},
    server::Acceptor,
    stream::{Stream, WebSocketOptions},
    types::{Accepted, DeliveryState},
};
use node::Node;
use tokio::io::{AsyncRead, AsyncWrite};

/// A message with a body.
fn message(body: impl Into<Bytes>) -> Bytes {
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes);
    encoder.encode(&Data(body.into().into()));
    encoder.finish().unwrap();
    bytes.into()
}

fn accepted() -> DeliveryState {
    Accepted {}.into()
}

fn client_of_web_socket() -> Connector {
    Connector::new("broker.test", 443).web_socket(WebSocketOptions::service_bus())
}

fn server_of_web_socket() -> Acceptor {
    Acceptor::new().web_socket(WebSocketOptions::service_bus())
}

/// Serves a connection after its handshakes.
fn serve<S>(node: &Node, acceptor: Acceptor, stream: S)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let node = node.clone();
    tokio::spawn(async move {
        if let Ok(stream) = acceptor.accept(stream).await {
            node.serve(stream).await;
        }
    });
}

/// Options of a client without SASL, whose first bytes are those of AMQP.
fn options() -> Options {
    Options::new("client").engine(engine::Options::default())
}

/// Sends messages of some sizes, receives and settles them.
async fn exchange(stream: Stream) -> Result<(), Error> {
    let connection = Connection::open(stream, options()).await?;
    let session = connection.begin().await?;
    let sender = session.attach_sender("s", "orders").await?;
    let mut receiver = session.attach_receiver("r", "orders").await?;
    receiver.set_automatic_credit(4)?;
    for size in [0, 1, 100_000] {
        let sent = message(vec![7; size]);
        assert_eq!(sender.send(sent.clone()).await?, Some(accepted()));
        let delivery = receiver.recv().await?;
        let received = EncodedMessage::split(delivery.payload.clone().into_bytes()).unwrap();
        assert_eq!(received.from_section(Section::Body), sent);
        receiver.settler().settle_confirmed(delivery.id, &accepted()).await?;
    }
    connection.close().await
}
