//! Many links and many leases of one transport, on a server in the same process.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::time::Duration;

use consign::{
    Message,
    administration::{Administration, QueueSettings},
    message::EntityPath,
    transport::{ReceiveMode, ReceiverExt, Sender, Transport},
};
use consign_amqp10::Amqp10;
use consign_server::{Limits, Server};
use futures_util::future::{join_all, try_join_all};
use tokio::net::TcpListener;

async fn connect(limits: Limits) -> (Server, Amqp10) {
    let server = Server::builder().limits(limits).build();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("amqp10://{}", listener.local_addr().unwrap());
    let serving = server.clone();
    tokio::spawn(async move { serving.serve(listener).await });
    (server, Amqp10::connect(&url).await.unwrap())
}

async fn orders(server: &Server) -> EntityPath {
    let orders = EntityPath::new("orders").unwrap();
    let settings = QueueSettings::default().lock_duration(Duration::from_secs(300));
    Administration::create(server.broker(), &orders, &settings.into()).await.unwrap();
    orders
}

/// Rules: K-273.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_messages_than_the_engine_tracks_by_default_are_held_on_one_link() {
    const COUNT: usize = 8_200;
    let limits = Limits::default().max_unsettled(1 << 20);
    let (server, amqp) = connect(limits).await;
    let orders = orders(&server).await;
    let sender = server.broker().sender(&orders).unwrap();
    try_join_all((0..COUNT).map(|_| sender.send(Message::new("a")))).await.unwrap();
    let mut receiver = amqp.receiver(&orders, ReceiveMode::PeekLock).await.unwrap();
    let mut held = Vec::new();
    while held.len() < COUNT {
        held.extend(receiver.receive_batch(COUNT - held.len()).await.unwrap());
    }
    // A lease of a link that was detached settles nothing.
    held.remove(0).complete().await.unwrap();
    let counts = Administration::counts(server.broker(), &orders).await.unwrap();
    assert_eq!((counts.active, counts.locked), (0, COUNT - 1));
}

/// Rules: K-270.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transport_has_more_senders_than_an_engine_has_sessions_by_default() {
    let (server, amqp) = connect(Limits::default()).await;
    let orders = orders(&server).await;
    let senders = join_all((0..300).map(|_| amqp.sender(&orders))).await;
    for sender in senders {
        sender.unwrap().send(Message::new("a")).await.unwrap();
    }
    assert_eq!(Administration::counts(server.broker(), &orders).await.unwrap().active, 300);
}
