//! Queues for replies whose requester is killed.
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod support;

use std::time::Duration;

use consign::{
    Message,
    codecs::Codecs,
    consumer::Consumer,
    message::EntityPath,
    middleware::retry::Backoff,
    routing::Body,
    rpc::{CallErrorKind, Client, Reply, ReplyQueue, Requester, Responder},
    supervisor::{PartState, RestartPolicy, Supervisor},
    transport::{ErrorKind, ReceiverExt, SendService, Sender as _},
};
use consign_conformance::killed::{self, Killed};
use consign_rabbitmq::{
    RabbitMq,
    lapin::{
        self, Channel, Connection, ConnectionProperties, ExchangeKind,
        options::{ExchangeDeclareOptions, QueueBindOptions, QueueDeleteOptions},
        types::FieldTable,
    },
};
use tokio::{
    sync::mpsc,
    time::{sleep, timeout},
};
use tower::BoxError;

/// Longer than it takes on a busy machine.
const LONG: Duration = Duration::from_secs(20);

/// The requester that is killed. Its queue has the name that it prints into the file of its argument.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_requester_that_is_killed() {
    let Some(file) = killed::argument() else { return };
    let rabbit: RabbitMq = support::options().connect(&support::address()).await.unwrap();
    let path = rabbit.create_reply_queue(Duration::from_millis(200)).await.unwrap();
    let mut replies = rabbit.receiver(&path).unwrap();
    rabbit.sender(&path).unwrap().send(Message::new("first")).await.unwrap();
    let delivery = replies.receive_within(LONG).await.unwrap();
    std::fs::write(file, &path).unwrap();
    let _receiving = tokio::spawn(async move { replies.receive_within(LONG * 10).await.map(drop) });
    killed::ready().await;
    drop(delivery);
}

/// Rules: K-204.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_reply_queue_of_a_killed_requester_is_deleted() {
    let Some(rabbit) = support::connect(support::options()).await else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("path");
    let process = Killed::run("the_requester_that_is_killed", file.to_str().unwrap()).await.unwrap();
    let path = std::fs::read_to_string(file).unwrap();
    EntityPath::new(&path).unwrap();
    // While its requester lives, it stays for longer than its idle time.
    sleep(Duration::from_millis(600)).await;
    rabbit.sender(&path).unwrap().send(Message::new("late")).await.unwrap();
    let deletion = Deletion::of(&path).await;
    process.kill().await.unwrap();
    timeout(LONG, deletion.wait()).await.expect("the queue is deleted");
    let error = rabbit.sender(&path).unwrap().send(Message::new("later")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::EntityNotFound, "{error}");
}

/// Rules: J-266, R-39.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_requester_outlives_its_reply_queue() {
    let Some(rabbit) = support::connect(support::options()).await else { return };
    // It is deleted also if the test fails.
    let requests = rabbit.create_reply_queue(LONG * 3).await.unwrap();
    let reply_to = rabbit.clone();
    let responder = Responder::builder(move |to: &EntityPath| Ok(SendService::new(reply_to.sender(to.as_str())?)))
        .codecs(Codecs::json())
        .fallback(async |Body(number): Body<u32>| Reply(number * 2))
        .build()
        .unwrap();
    let responding = tokio::spawn(Consumer::new(rabbit.receiver(&requests).unwrap(), responder).run());
    let (names, mut named) = mpsc::channel(100);
    let made = rabbit.clone();
    let make = move || {
        let (rabbit, names) = (made.clone(), names.clone());
        async move {
            let name = rabbit.create_reply_queue(LONG * 3).await?;
            names.send(name.clone()).await?;
            let receiver = rabbit.receiver(&name)?;
            Ok::<_, BoxError>(ReplyQueue::new(name, receiver))
        }
    };
    let sender = SendService::new(rabbit.sender(&requests).unwrap());
    let (requester, replies) = Requester::builder(sender).timeout(LONG).build(make().await.unwrap()).unwrap();
    let policy = RestartPolicy::new().backoff(Backoff::fixed(Duration::from_millis(20))).limit(100, LONG);
    let supervisor = Supervisor::new().restart(policy).replies_from("replies", replies, make);
    let health = supervisor.health();
    let running = tokio::spawn(supervisor.run());
    let client = Client::new(requester, Codecs::json());
    assert_eq!(client.call::<u32>(&21).await.unwrap(), 42);

    let first = named.recv().await.unwrap();
    delete(&first).await;
    let second = timeout(LONG, named.recv()).await.expect("another queue is created").unwrap();
    assert_ne!(first, second);
    let answer = async {
        loop {
            match client.call::<u32>(&21).await {
                Ok(answer) => return answer,
                Err(error) => assert_eq!(error.kind(), CallErrorKind::Disconnected, "{error}"),
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    assert_eq!(timeout(LONG, answer).await.expect("calls are answered again"), 42);
    let part = health.part("replies").unwrap();
    assert_eq!((part.state, part.restarts > 0), (PartState::Running, true));

    drop(client);
    timeout(LONG, running).await.expect("it ends with the client").unwrap().unwrap();
    responding.abort();
    delete(&requests).await;
    delete(&second).await;
}

/// Deletes a queue by a connection of its own.
async fn delete(queue: &str) {
    let connection = Connection::connect(&support::address(), ConnectionProperties::default()).await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    channel.queue_delete(queue.into(), QueueDeleteOptions::default()).await.unwrap();
    connection.close(200, "OK".into()).await.unwrap();
}

/// An exchange that the broker deletes together with the last queue that is bound to it. RabbitMQ ends a connection that names a
/// queue while it deletes it, so the test does not.
struct Deletion {
    connection: Connection,
    exchange: String,
}

impl Deletion {
    async fn of(queue: &str) -> Self {
        let connection = Connection::connect(&support::address(), ConnectionProperties::default()).await.unwrap();
        let this = Self { connection, exchange: format!("{queue}-bound") };
        let channel = this.connection.create_channel().await.unwrap();
        this.declare(&channel, false).await.unwrap();
        let options = QueueBindOptions::default();
        channel
            .queue_bind(queue.into(), this.exchange.as_str().into(), "".into(), options, FieldTable::default())
            .await
            .unwrap();
        this
    }

    async fn declare(&self, channel: &Channel, passive: bool) -> lapin::Result<()> {
        let options = ExchangeDeclareOptions { passive, auto_delete: true, ..ExchangeDeclareOptions::default() };
        let name = self.exchange.as_str().into();
        channel.exchange_declare(name, ExchangeKind::Fanout, options, FieldTable::default()).await
    }

    async fn wait(&self) {
        loop {
            let channel = self.connection.create_channel().await.unwrap();
            if self.declare(&channel, true).await.is_err() {
                return;
            }
            channel.close(200, "OK".into()).await.unwrap();
            sleep(Duration::from_millis(50)).await;
        }
    }
}

#[tokio::test]
async fn an_idle_time_out_of_range_is_refused() {
    let Some(rabbit) = support::connect(support::options()).await else { return };
    for idle in [Duration::ZERO, Duration::from_micros(999), Duration::MAX] {
        let error = rabbit.create_reply_queue(idle).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{idle:?}");
    }
}
