//! What becomes of a topic's messages when somebody dies.

use std::{sync::Arc, time::Duration};

use consign::{
    Message,
    message::{EntityPath, SequenceNumber},
    rules::{Copies, Filter, Rule, SqlAction},
    transport::{Batch, Delivery, ErrorKind, PeekMessages, ReceiverExt, Sender},
};
use consign_nats::{
    Nats, NatsLease, SubscriptionSettings, TopicSettings,
    async_nats::jetstream::{self, consumer::PullConsumer},
};
use futures_util::{StreamExt, future::join_all};

use crate::{LONG, server};

/// The body of the last message.
const END: &str = "end";

/// A connection, and a topic with the subscriptions `one` and `two`.
async fn topic() -> Option<(Nats, String)> {
    let nats = connect(&server::url()?).await;
    let path = format!("t{:016x}", fastrand::u64(..));
    nats.create_topic(&path, TopicSettings::default()).await.expect("a new topic");
    for name in ["one", "two"] {
        nats.create_subscription(&path, name, SubscriptionSettings::default()).await.expect("a new subscription");
    }
    Some((nats, path))
}

async fn connect(url: &str) -> Nats {
    Nats::options().namespace("test").server_syncs().connect(url).await.expect("a server")
}

fn of(topic: &str, name: &str) -> String {
    EntityPath::new(topic).and_then(|topic| topic.subscription_of(name)).expect("a path").to_string()
}

/// Sends a last message to the topic.
async fn end(nats: &Nats, topic: &str) {
    nats.sender(topic).await.expect("the topic").send(Message::new(END)).await.expect("a server");
}

/// What a subscription gets until its last message, and until nothing comes after that.
async fn drain(nats: &Nats, path: &str) -> Vec<String> {
    let mut receiver = nats.receiver(path).await.expect("the subscription");
    let (mut bodies, mut wait) = (Vec::new(), LONG);
    loop {
        match receiver.receive_within(wait).await {
            Ok(delivery) => {
                let body = text(&delivery);
                delivery.complete().await.expect("the lock");
                if body == END {
                    wait = Duration::from_millis(500);
                } else {
                    bodies.push(body);
                }
            }
            Err(error) if error.kind() == ErrorKind::ServiceTimeout && wait < LONG => return bodies,
            Err(error) => panic!("{path} after {} messages: {error}", bodies.len()),
        }
    }
}

fn text(delivery: &Delivery<NatsLease>) -> String {
    String::from_utf8_lossy(delivery.message.payload().unwrap_or_default()).into_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sender_that_dies_has_sent_to_all_or_to_none() {
    let Some((nats, path)) = topic().await else { return };
    let url = server::url().unwrap();
    let mut acknowledged = Vec::new();
    for death in 0..20_u64 {
        let dying = connect(&url).await;
        let sender = dying.sender(&path).await.unwrap();
        let (said, mut heard) = tokio::sync::mpsc::channel(64);
        let sending = tokio::spawn(async move {
            for number in 0..64 {
                let body = format!("{death}.{number}");
                if sender.send(Message::new(body.clone())).await.is_ok() {
                    said.send(body).await.unwrap();
                }
            }
        });
        // At any moment of one of the sends.
        for _ in 0..death {
            acknowledged.push(tokio::time::timeout(LONG, heard.recv()).await.unwrap().unwrap());
        }
        tokio::time::sleep(Duration::from_micros(death * 370 % 1_000)).await;
        sending.abort();
        let _ = sending.await;
        drop(dying);
        while let Some(body) = heard.recv().await {
            acknowledged.push(body);
        }
    }
    end(&nats, &path).await;
    let (one, two) = (drain(&nats, &of(&path, "one")).await, drain(&nats, &of(&path, "two")).await);
    assert_eq!(one, two);
    assert!(!acknowledged.is_empty(), "every sender died before its first message was acknowledged");
    assert!(acknowledged.iter().all(|body| one.contains(body)), "{} of {}", acknowledged.len(), one.len());
    nats.delete(&path).await.unwrap();
}

/// Another task than ours has pulled the messages, made one of three copies of one, and dies.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copies_that_a_death_has_left_out_are_made_and_those_that_are_there_are_not() {
    let Some((nats, path)) = topic().await else { return };
    let two = of(&path, "two");
    for name in ["a", "b"] {
        let rule = Rule::new(name, Filter::True).unwrap().with_action(SqlAction::parse("SET x = 1").unwrap());
        nats.create_rule(&path, "two", &rule).await.unwrap();
    }
    // The feed ends with its request when nobody wants it any more.
    nats.close().await.unwrap();
    let nats = connect(&server::url().unwrap()).await;
    let context = jetstream::new(nats.client().clone());
    let stream = format!("test_{path}");
    let consumer: PullConsumer = context.get_consumer_from_stream("two", &stream).await.unwrap();
    // The server may keep the request of the feed that has ended for as long as it lasts.
    tokio::time::timeout(LONG, async {
        let mut messages = consumer.batch().max_messages(1).expires(Duration::from_secs(1)).messages().await.unwrap();
        nats.sender(&path).await.unwrap().send(Message::builder().message_id("m-0").build("0").unwrap()).await.unwrap();
        while messages.next().await.is_none() {
            messages = consumer.batch().max_messages(1).expires(Duration::from_secs(1)).messages().await.unwrap();
        }
    })
    .await
    .unwrap();
    let topic = context.get_stream(&stream).await.unwrap();
    let described: serde_json::Value =
        serde_json::from_str(topic.cached_info().config.description.as_deref().unwrap()).unwrap();
    let number = topic.cached_info().state.last_sequence;
    let mut headers = consign_nats::async_nats::HeaderMap::new();
    headers.insert("Nats-Msg-Id", format!("{}-{number}", described["id"].as_str().unwrap()));
    headers.insert("Sb-Message-Id", "m-0");
    let subject = format!("test.{}.m", stream_token(&two));
    context.publish_with_headers(subject, headers, "0".into()).await.unwrap().await.unwrap();
    nats.sender(&path).await.unwrap().send_batch(Batch::from(["1", "2"].map(Message::new))).await.unwrap();

    let mut receiver = nats.receiver(&two).await.unwrap();
    let mut copies = Vec::new();
    while copies.len() < 9 {
        let delivery = receiver.receive_within(LONG).await.unwrap();
        let rule = delivery.message.application_properties().get(Copies::RULE_NAME).and_then(|name| name.as_str());
        copies.push(format!("{}{}", text(&delivery), rule.unwrap_or_default()));
        delivery.complete().await.unwrap();
    }
    assert_eq!(copies, ["0", "0a", "0b", "1", "1a", "1b", "2", "2a", "2b"]);
    assert!(nats.peek(&EntityPath::new(&two).unwrap(), SequenceNumber::new(0), 10).await.unwrap().is_empty());
    nats.delete(&path).await.unwrap();
}

fn stream_token(path: &str) -> String {
    path.to_lowercase().replace('/', "=2F")
}

/// Several connections receive from one subscription: one at a time makes the copies, and they are in their order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn receivers_of_several_connections_get_each_copy_once_and_the_copies_are_in_order() {
    let Some((nats, path)) = topic().await else { return };
    let (one, url) = (of(&path, "one"), server::url().unwrap());
    let others = join_all((0..3).map(|_| connect(&url))).await;
    let mut receivers = Vec::new();
    for other in &others {
        receivers.push(other.receiver(&one).await.unwrap());
    }
    let sender = Arc::new(nats.sender(&path).await.unwrap());
    for first in (0..600).step_by(60) {
        let batch = (first..first + 60).map(|number| Message::new(format!("{number:03}")));
        sender.send_batch(batch.collect()).await.unwrap();
    }
    let mut numbers = Vec::new();
    while numbers.len() < 600 {
        for receiver in &mut receivers {
            let received = tokio::time::timeout(Duration::from_millis(500), receiver.receive_batch(64)).await;
            for delivery in received.map(Result::unwrap).unwrap_or_default() {
                numbers.push((delivery.message.received().unwrap().sequence_number.get(), text(&delivery)));
                delivery.complete().await.unwrap();
            }
        }
    }
    numbers.sort();
    let bodies: Vec<_> = numbers.into_iter().map(|(_, body)| body).collect();
    let out_of_order = bodies.windows(2).find(|pair| pair[0] > pair[1]);
    assert_eq!(out_of_order, None);
    end(&nats, &path).await;
    assert_eq!(drain(&nats, &of(&path, "two")).await.len(), 600);
    nats.delete(&path).await.unwrap();
}

/// As a server of a cluster may answer for a while, whose consumer is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copies_are_made_again_when_the_consumer_of_the_topic_is_back() {
    let Some((nats, topic)) = topic().await else { return };
    let mut receiver = nats.receiver(&of(&topic, "one")).await.unwrap();
    let sender = nats.sender(&topic).await.unwrap();
    sender.send(Message::new("1")).await.unwrap();
    receiver.receive_within(LONG).await.unwrap().complete().await.unwrap();
    let stream = jetstream::new(nats.client().clone()).get_stream(format!("test_{topic}")).await.unwrap();
    let consumer: PullConsumer = stream.get_consumer("one").await.unwrap();
    let config = consumer.cached_info().config.clone();
    stream.delete_consumer("one").await.unwrap();
    // The fan-out hears of it.
    tokio::time::sleep(Duration::from_millis(500)).await;
    stream.create_consumer(config).await.unwrap();
    sender.send(Message::new("2")).await.unwrap();
    assert_eq!(text(&receiver.receive_within(LONG).await.unwrap()), "2");
    nats.delete(&topic).await.unwrap();
}

/// The streams of the new one have the same names.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_of_a_deleted_subscription_does_not_receive_from_another_of_its_name() {
    let Some((nats, topic)) = topic().await else { return };
    let path = of(&topic, "one");
    let mut receiver = nats.receiver(&path).await.unwrap();
    assert!(receiver.receive_within(Duration::from_millis(100)).await.is_err());
    nats.delete(&path).await.unwrap();
    nats.create_subscription(&topic, "one", SubscriptionSettings::default()).await.unwrap();
    // The first error may be that of its request.
    for _ in 0..2 {
        let error = receiver.receive_within(LONG).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::EntityNotFound, "{error}");
    }
    nats.delete(&topic).await.unwrap();
}
