//! What spans say about a server and a delivery.

use consign::{
    Message,
    administration::{Administration, QueueSettings},
    transport::{ReceiveMode, ReceiverExt, Sender, ServerAddress, Transport},
};

use crate::{connect, path, registry, support};

/// Host and port of the tests' server.
fn expected() -> ServerAddress {
    let address = support::address();
    let authority = address.split(['/', '?']).nth(2).expect("an authority");
    let host = authority.rsplit('@').next().expect("a host");
    let (host, port) = host.rsplit_once(':').unwrap_or((host, "5672"));
    ServerAddress::new(host).with_port(port.parse().expect("a port"))
}

/// Rules: O-19.
#[tokio::test]
async fn the_server_is_the_only_one_of_the_url() {
    let Some(only) = connect().await else { return };
    assert_eq!(only.server(), Some(expected()));
    // Nothing listens at the first.
    let url = support::address().replacen('@', "@127.0.0.1:1,", 1);
    let second = registry().connect(&url).await.expect("a server");
    assert_eq!(second.server(), None);
    second.close().await.expect("an open connection");
    only.close().await.expect("an open connection");
}

/// Rules: O-17.
#[tokio::test]
async fn deliveries_have_the_tags_of_their_channel() {
    let Some(rabbit) = connect().await else { return };
    let path = path("tags");
    rabbit.declare(&path, &QueueSettings::default().into()).await.expect("a new queue");
    let sender = rabbit.sender(&path).await.expect("a queue");
    let mut receiver = rabbit.receiver(&path, ReceiveMode::PeekLock).await.expect("a queue");
    for expected in 1..=2 {
        sender.send(Message::new("")).await.expect("it is accepted");
        let delivery = receiver.receive().await.expect("a message");
        let received = delivery.message.received().expect("what the broker says");
        assert_eq!(received.delivery_tag.map(std::num::NonZeroU64::get), Some(expected));
        delivery.complete().await.expect("a lock");
    }
    drop(receiver);
    rabbit.delete(&path).await.expect("a queue");
}
