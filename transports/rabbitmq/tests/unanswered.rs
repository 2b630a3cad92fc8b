//! A server that answers too late.

mod support;

use std::{future::poll_fn, net::SocketAddr, task::Poll, time::Duration};

use consign::{
    Message,
    transport::{ErrorKind, Receiver, ReceiverExt, Sender, Transport},
};
use consign_conformance::faults::{Direction, How, Proxy, Trip};
use consign_rabbitmq::{QueueSettings, RabbitMq, RabbitMqReceiver, RabbitMqSender};

use crate::support::{Options, repeated};

/// For what happens at once, on a machine that is busy.
const SOON: Duration = Duration::from_secs(60);
/// Of a client that an answer can come too late for.
const SHORT: Duration = Duration::from_millis(500);

async fn socket(server: &str) -> SocketAddr {
    tokio::net::lookup_host(server).await.expect("an address").next().expect("an address")
}

struct Late {
    direct: RabbitMq,
    proxy: Proxy,
    behind: RabbitMq,
    queue: String,
}

impl Late {
    /// Connects to the server, and to the same one behind a proxy, with this timeout.
    async fn connect(timeout: Duration) -> Option<Self> {
        let direct = support::connect(support::options()).await?;
        let url = support::address();
        let (credentials, rest) = url.split_once('@').expect("an address with credentials");
        let (server, host) = rest.split_once('/').expect("an address with a virtual host");
        let proxy = Proxy::to(socket(server).await).await.expect("a free port");
        let options = || support::options().timeout(timeout);
        let address = format!("{credentials}@{}/{host}", proxy.address());
        let behind = repeated(async || options().connect(&address).await).await;
        let queue = support::unique("late");
        direct.create_queue(&queue, QueueSettings::default()).await.expect("a new queue");
        Some(Self { direct, proxy, behind, queue })
    }

    /// Returns a receiver that has a channel, and no subscription.
    async fn receiver(&self) -> RabbitMqReceiver {
        let mut receiver = self.behind.receiver(&self.queue).expect("a name");
        self.send("first").await;
        repeated(async || receiver.receive_within(SOON).await).await.complete().await.expect("a lock");
        receiver.stopped().await;
        receiver
    }

    async fn send(&self, body: &'static str) {
        self.direct.sender(&self.queue).expect("a name").send(Message::new(body)).await.expect("a queue");
    }

    /// Receives the message after the late answer has come.
    async fn receives(self, mut receiver: RabbitMqReceiver) {
        self.proxy.freeze(false);
        // A message that is not locked by the late answer.
        let received = repeated(async || receiver.receive_within(SOON).await).await;
        received.complete().await.expect("a lock");
        self.direct.delete(&self.queue).await.expect("a queue");
        self.behind.close().await.expect("an open connection");
        self.direct.close().await.expect("an open connection");
    }
}

#[tokio::test]
async fn a_subscription_that_is_answered_late_takes_no_message() {
    let Some(late) = Late::connect(SHORT).await else { return };
    let mut receiver = late.receiver().await;
    late.proxy.freeze(true);
    late.send("a").await;
    let error = receiver.receive_within(SOON).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ServiceTimeout, "{error:?}");
    late.receives(receiver).await;
}

#[tokio::test]
async fn a_subscription_whose_end_is_answered_late_takes_no_message() {
    let Some(late) = Late::connect(SHORT).await else { return };
    let mut receiver = late.receiver().await;
    // It subscribes, and the queue is empty.
    assert!(receiver.receive_within(Duration::from_millis(300)).await.is_err());
    late.proxy.freeze(true);
    late.send("a").await;
    receiver.stopped().await;
    let error = receiver.receive_within(SOON).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ServiceTimeout, "{error:?}");
    late.receives(receiver).await;
}

/// As `select!` in a loop polls it, and `join_all`.
#[tokio::test]
async fn a_receiver_that_is_polled_before_the_answer_subscribes_once() {
    // A deadline that passes ends the receive.
    let Some(late) = Late::connect(Duration::from_secs(30)).await else { return };
    let mut receiver = late.receiver().await;
    // More than it takes to subscribe once.
    late.proxy.arm(Trip { direction: Direction::ToServer, steps: 8, how: How::Before });
    let mut out = Vec::new();
    for _ in 0..200 {
        poll_fn(|cx| {
            assert!(receiver.poll_receive(cx, 1, &mut out).is_pending());
            Poll::Ready(())
        })
        .await;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(late.proxy.disarm(), "it subscribed again and again");
    late.send("a").await;
    let received = receiver.receive_within(SOON).await.expect("a message");
    received.complete().await.expect("a lock");
    late.direct.delete(&late.queue).await.expect("a queue");
    late.behind.close().await.unwrap();
    late.direct.close().await.unwrap();
}

/// A client of two servers, each behind a proxy, with a sender. It is connected to the first.
struct Two {
    direct: RabbitMq,
    proxy: Proxy,
    /// Ends each connection to the second server. A slow handshake would lead there.
    other: Proxy,
    behind: RabbitMq,
    queue: String,
    sender: RabbitMqSender,
}

impl Two {
    async fn connect(options: impl Fn() -> Options) -> Option<Self> {
        let direct = support::connect(support::options()).await?;
        let url = support::address();
        let (credentials, rest) = url.split_once('@').expect("an address with credentials");
        let (server, host) = rest.split_once('/').expect("an address with a virtual host");
        let socket = socket(server).await;
        let (proxy, other) =
            (Proxy::to(socket).await.expect("a free port"), Proxy::to(socket).await.expect("a free port"));
        other.refuse(true);
        let address = format!("{credentials}@{},{}/{host}", proxy.address(), other.address());
        let behind = repeated(async || options().connect(&address).await).await;
        let queue = support::unique("late");
        direct.create_queue(&queue, QueueSettings::default()).await.expect("a new queue");
        let sender = behind.sender(&queue).expect("a name");
        // An attempt whose confirmation comes too late is stored too.
        repeated(async || sender.send(Message::new("first")).await).await;
        Some(Self { direct, proxy, other, behind, queue, sender })
    }

    /// Stops the first server, and opens the second.
    fn freeze(&self) {
        self.proxy.freeze(true);
        self.other.refuse(false);
    }

    /// Sends until a message is confirmed.
    async fn sends(self) {
        let sending = async { while self.sender.send(Message::new("next")).await.is_err() {} };
        tokio::time::timeout(SOON, sending).await.expect("a message that is confirmed by the other server");
        self.direct.delete(&self.queue).await.expect("a queue");
        self.behind.close().await.expect("an open connection");
        self.direct.close().await.expect("an open connection");
    }
}

/// The deadline of a send ends while the first server still may answer.
#[tokio::test]
async fn a_client_that_only_sends_leaves_a_server_that_does_not_answer() {
    let Some(two) = Two::connect(|| support::options().timeout(SHORT)).await else { return };
    two.freeze();
    two.proxy.cut();
    two.sends().await;
}

/// The connection is open, as of a server that is out of memory.
#[tokio::test]
async fn a_connection_that_confirms_nothing_is_left() {
    let options = || support::options().timeout(SHORT);
    let options = || options().sends_in_flight(2).heartbeat(Duration::from_secs(60));
    let Some(two) = Two::connect(options).await else { return };
    two.freeze();
    let sending = (0..5).map(|_| two.sender.send(Message::new("stuck")));
    let sending = tokio::time::timeout(SOON, futures_util::future::join_all(sending));
    for result in sending.await.expect("an end at the deadline") {
        let error = result.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::ServiceTimeout | ErrorKind::Throttled), "{error:?}");
    }
    two.sends().await;
}

/// RabbitMQ may keep messages for a consumer that it has forgotten, until the channel closes.
#[tokio::test]
async fn a_receiver_without_messages_opens_another_channel() {
    // It waits for twenty times the timeout. A heartbeat would be a step of its own.
    let options = || support::options().timeout(Duration::from_secs(1)).heartbeat(Duration::from_secs(600));
    let Some(two) = Two::connect(options).await else { return };
    let mut receiver = two.behind.receiver(&two.queue).expect("a name");
    repeated(async || receiver.receive_within(SOON).await).await.complete().await.expect("a lock");
    while let Ok(another) = receiver.receive_within(Duration::from_millis(300)).await {
        another.complete().await.expect("a lock");
    }
    {
        let mut next = Box::pin(receiver.receive());
        let none = tokio::time::timeout(Duration::from_millis(300), &mut next);
        assert!(none.await.is_err(), "it waits");
        // Nothing but what it does by itself.
        two.proxy.arm(Trip { direction: Direction::ToServer, steps: 2, how: How::Before });
        let error = tokio::time::timeout(SOON, next).await.expect("it does something").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::CommunicationProblem, "{error:?}");
    }
    assert!(!two.proxy.is_armed());
    two.direct.sender(&two.queue).expect("a name").send(Message::new("next")).await.expect("a queue");
    repeated(async || receiver.receive_within(SOON).await).await.complete().await.expect("a lock");
    drop(receiver);
    two.sends().await;
}

/// Rules: K-48.
/// lapin uses each number of a channel once.
#[tokio::test]
async fn pings_use_no_connection_up() {
    let Some(direct) = support::connect(support::options()).await else { return };
    direct.close().await.expect("an open connection");
    let url = support::address();
    let (credentials, rest) = url.split_once('@').expect("an address with credentials");
    let (server, host) = rest.split_once('/').expect("an address with a virtual host");
    let proxy = Proxy::to(socket(server).await).await.expect("a free port");
    let address = format!("{credentials}@{}/{host}?channel_max=4", proxy.address());
    let rabbit = support::options().connect(&address).await.expect("a broker");
    rabbit.ping().await.expect("a broker");
    // There is no other connection from here on.
    proxy.refuse(true);
    for number in 0..40 {
        rabbit.ping().await.unwrap_or_else(|error| panic!("{number}: {error:?}"));
    }
    rabbit.close().await.expect("an open connection");
}
