//! Messages of publishers without this crate, in the slot that they say and in another one.
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::{
    collections::{HashSet, VecDeque},
    time::Duration,
};

use consign::transport::{ErrorKind, ReceiverExt, Session};
use consign_conformance::killed::{self, Killed};
use consign_rabbitmq::{
    RabbitMq, RabbitMqSession,
    lapin::{
        BasicProperties, Channel, Connection, ConnectionProperties,
        options::{
            BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions, QueueDeleteOptions, QueuePurgeOptions,
        },
        types::{AMQPValue, FieldTable},
    },
};

use crate::{Bench, SOON, by_session, expect, next, support};

const SLOTS: u16 = 4;

/// The queue of a slot, by its number.
fn slot(queue: &str, slot: u16) -> String {
    format!("{queue}/$slot-{slot:02}-{SLOTS:02}")
}

struct Publisher {
    connection: Connection,
    channel: Channel,
}

impl Publisher {
    async fn new() -> Self {
        let connection = Connection::connect(&support::address(), ConnectionProperties::default()).await.unwrap();
        let channel = connection.create_channel().await.unwrap();
        channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
        Self { connection, channel }
    }

    async fn publish(&self, queue: &str, id: &str, body: &str) {
        let mut headers = FieldTable::default();
        headers.insert("sb-session-id".into(), AMQPValue::LongString(id.into()));
        headers.insert("origin".into(), AMQPValue::LongString("foreign".into()));
        let properties = BasicProperties::default().with_headers(headers).with_message_id(body.into());
        let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        let sent = self.channel.basic_publish("".into(), queue.into(), options, body.as_bytes(), properties).await;
        assert!(matches!(sent.unwrap().await.unwrap(), consign_rabbitmq::lapin::Confirmation::Ack(None)));
    }

    async fn end(self) {
        self.connection.close(200, "".into()).await.unwrap();
    }
}

/// The slot of "customer-7" among four, by `tests/session_slots.json`.
fn own_slot() -> u16 {
    let vectors: serde_json::Value = serde_json::from_str(include_str!("../session_slots.json")).unwrap();
    let vector = vectors.as_array().unwrap().iter().find(|vector| vector["id"] == "customer-7").unwrap();
    u16::try_from(vector["bucket"].as_u64().unwrap()).unwrap() % SLOTS
}

/// Rules: K-220, N-05.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_in_another_slot_is_moved_to_its_own() {
    let Some(bench) = Bench::new(by_session(SLOTS)).await else { return };
    let other = bench.other(support::options(), &support::address()).await;
    let publisher = Publisher::new().await;
    let (right, wrong) = (own_slot(), (own_slot() + 1) % SLOTS);
    publisher.publish(&slot(&bench.queue, right), "customer-7", "1").await;
    // Whoever holds the session is the only one, whatever is in another slot, and whoever reads that.
    let mut holder = bench.rabbit.session_acceptor(&bench.queue).unwrap().accept_next_within(SOON).await.unwrap();
    assert_eq!(holder.session_id(), "customer-7");
    publisher.publish(&slot(&bench.queue, wrong), "customer-7", "2").await;
    let mut acceptor = other.session_acceptor(&bench.queue).unwrap();
    let holding = async {
        // Long enough for the other client to find the slot and its message.
        tokio::time::sleep(Duration::from_secs(2)).await;
        let (body, count, first) = next(&mut holder).await;
        assert_eq!((body.as_str(), count), ("1", 1));
        first.complete().await.unwrap();
        let delivery = holder.receive_within(SOON).await.unwrap();
        assert_eq!((delivery.message.message_id(), delivery.message.payload()), (Some("2"), Some(&b"2"[..])));
        let origin = delivery.message.application_properties().get("origin").and_then(|origin| origin.as_str());
        assert_eq!(origin, Some("foreign"));
        delivery.complete().await.unwrap();
        holder.close().await.unwrap();
    };
    tokio::select! {
        accepted = acceptor.accept_next() => panic!("{:?}", accepted.map(|session| session.session_id().to_owned())),
        () = holding => {}
    }
    publisher.end().await;
    other.close().await.unwrap();
    bench.end().await;
}

/// Rules: K-220.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_whose_slot_is_gone_is_a_dead_letter() {
    let Some(bench) = Bench::new(by_session(SLOTS)).await else { return };
    let publisher = Publisher::new().await;
    let (right, wrong) = (own_slot(), (own_slot() + 1) % SLOTS);
    publisher.channel.queue_delete(slot(&bench.queue, right).into(), QueueDeleteOptions::default()).await.unwrap();
    publisher.publish(&slot(&bench.queue, wrong), "customer-7", "1").await;
    // An id of the slot that the message is in.
    let id = (0..1_000).map(|number| format!("s{number}")).find(|id| bucket(id) % SLOTS == wrong).unwrap();
    let holder = bench.accept(&id).await;
    let dead = format!("{}/$deadletterqueue", bench.queue);
    let delivery = bench.rabbit.receiver(&dead).unwrap().receive_within(SOON).await.unwrap();
    assert_eq!(delivery.message.dead_letter_reason(), Some("WrongSessionSlot"));
    let why = delivery.message.dead_letter_description().unwrap_or_default();
    assert!(why.contains(&slot(&bench.queue, right)) && why.contains(&slot(&bench.queue, wrong)), "{why}");
    delivery.complete().await.unwrap();
    holder.close().await.unwrap();
    publisher.end().await;
    bench.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_without_a_session_is_never_received_if_its_dead_letter_is_refused() {
    let Some(bench) = Bench::new(by_session(SLOTS)).await else { return };
    let publisher = Publisher::new().await;
    let dead = format!("{}/$deadletterqueue", bench.queue);
    publisher.channel.queue_delete(dead.as_str().into(), QueueDeleteOptions::default()).await.unwrap();
    let mut full = FieldTable::default();
    full.insert("x-max-length".into(), AMQPValue::LongInt(1));
    full.insert("x-overflow".into(), AMQPValue::LongString("reject-publish".into()));
    publisher.channel.queue_declare(dead.as_str().into(), QueueDeclareOptions::durable(), full).await.unwrap();
    publisher.publish(&dead, "a", "filler").await;
    let holder = bench.accept("customer-7").await;
    let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
    let of_slot = slot(&bench.queue, own_slot());
    let publishing =
        publisher.channel.basic_publish("".into(), of_slot.into(), options, b"1", BasicProperties::default());
    publishing.await.unwrap().await.unwrap();
    let mut acceptor = bench.rabbit.session_acceptor(&bench.queue).unwrap();
    // Longer than the pause after a refusal.
    let none = acceptor.accept_next_within(Duration::from_secs(2)).await;
    assert_eq!(none.map(|session| session.session_id().to_owned()).unwrap_err().kind(), ErrorKind::ServiceTimeout);
    publisher.channel.queue_purge(dead.as_str().into(), QueuePurgeOptions::default()).await.unwrap();
    let delivery = bench.rabbit.receiver(&dead).unwrap().receive_within(SOON).await.unwrap();
    assert_eq!(delivery.message.dead_letter_reason(), Some("Session ID is null."));
    delivery.complete().await.unwrap();
    holder.close().await.unwrap();
    publisher.end().await;
    bench.end().await;
}

/// As the README specifies it.
pub(crate) fn bucket(id: &str) -> u16 {
    let hash = id
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    u16::try_from(((hash >> 32) ^ hash) % 64).unwrap()
}

/// Rules: K-221.
/// A client with sessions of every slot gives half of the slots to one that comes later, as it closes sessions there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_comes_later_gets_its_share_of_the_slots() {
    const SESSIONS: usize = 40;
    let slot_of = |session: &RabbitMqSession| bucket(session.session_id()) % SLOTS;
    let Some(bench) = Bench::new(by_session(SLOTS)).await else { return };
    for id in 0..SESSIONS {
        bench.send(&format!("s{id}"), "1").await;
    }
    // The first client has two sessions of each slot or more, and replaces each one that it closes.
    let mut acceptor = bench.rabbit.session_acceptor(&bench.queue).unwrap();
    let mut held = VecDeque::new();
    while (0..SLOTS).any(|slot| held.iter().filter(|session| slot_of(session) == slot).count() < 2) {
        held.push_back(acceptor.accept_next_within(SOON).await.unwrap());
    }
    let other = bench.other(support::options(), &support::address()).await;
    let queue = bench.queue.clone();
    let newcomer = tokio::spawn(async move {
        let mut acceptor = other.session_acceptor(&queue).unwrap();
        let (mut slots, mut held) = (HashSet::new(), Vec::new());
        while slots.len() < usize::from(SLOTS / 2) {
            let session = acceptor.accept_next_within(SOON).await.unwrap();
            slots.insert(bucket(session.session_id()) % SLOTS);
            held.push(session);
        }
        drop(held);
        other.close().await.unwrap();
    });
    let working = async {
        loop {
            // A session without work is closed at once, and the requests for the next one would keep a busy server from all else.
            tokio::time::sleep(Duration::from_millis(10)).await;
            if let Some(session) = held.pop_front() {
                session.close().await.unwrap();
            }
            if let Ok(session) = acceptor.accept_next_within(Duration::from_millis(50)).await {
                held.push_back(session);
            }
        }
    };
    tokio::select! {
        () = working => {}
        ended = newcomer => ended.unwrap(),
    }
    drop(held);
    bench.end().await;
}

/// The process that holds the session below.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_holder_that_is_killed() {
    let Some(queue) = killed::argument() else { return };
    let rabbit: RabbitMq = support::options().connect(&support::address()).await.unwrap();
    let mut session = rabbit.accept_session(&queue, "customer-7").await.unwrap();
    let _held = session.receive_within(SOON).await.unwrap();
    killed::ready().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_of_a_killed_process_goes_on_elsewhere() {
    let Some(bench) = Bench::new(by_session(SLOTS)).await else { return };
    bench.send("customer-7", "1").await;
    let running = Killed::run("foreign::the_holder_that_is_killed", &bench.queue);
    let process = running.await.unwrap();
    assert!(bench.rabbit.accept_session(&bench.queue, "customer-7").await.is_err());
    process.kill().await.unwrap();
    let killed = tokio::time::Instant::now();
    let mut acceptor = bench.rabbit.session_acceptor(&bench.queue).unwrap();
    let mut session = acceptor.accept_next_within(SOON).await.unwrap();
    expect(&mut session, &[("1", 1)]).await;
    println!("after {:?}", killed.elapsed());
    session.close().await.unwrap();
    bench.end().await;
}

/// A slot was given up with a message, which another program has removed since. The search opens it again, and waits for its first
/// message: once, and not in each accept.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_slot_delays_short_accepts_once() {
    let Some(bench) = Bench::new(by_session(SLOTS)).await else { return };
    let publisher = Publisher::new().await;
    let emptied = slot(&bench.queue, own_slot());
    publisher.publish(&emptied, "customer-7", "1").await;
    let mut holder = bench.accept("customer-7").await;
    let (_, _, delivery) = next(&mut holder).await;
    let vectors: serde_json::Value = serde_json::from_str(include_str!("../session_slots.json")).unwrap();
    let in_another_slot = |id: &&str| {
        let vector = vectors.as_array().unwrap().iter().find(|vector| vector["id"] == *id).unwrap();
        vector["bucket"].as_u64().unwrap() % u64::from(SLOTS) != u64::from(own_slot())
    };
    let ids = vectors.as_array().unwrap().iter().filter_map(|vector| vector["id"].as_str());
    let other = ids.filter(|id| !id.is_empty()).find(in_another_slot).unwrap();
    bench.send(other, "2").await;
    drop(delivery);
    holder.close().await.unwrap();
    let purge = || publisher.channel.queue_purge(emptied.as_str().into(), QueuePurgeOptions::default());
    let purged = async { while purge().await.unwrap() == 0 {} };
    tokio::time::timeout(SOON, purged).await.expect("the message of the first session returns to its slot");
    let mut acceptor = bench.rabbit.session_acceptor(&bench.queue).unwrap();
    let mut accepts = 0;
    let accepted = loop {
        accepts += 1;
        // A search that waits again and again takes 3 s from the moment at which it has found the other session: 15 accepts.
        // A time would be longer on a machine that is busy, and an accept is longer too.
        assert!(accepts < 12, "it waits again");
        match acceptor.accept_next_within(Duration::from_millis(200)).await {
            Err(error) if error.kind() == ErrorKind::ServiceTimeout => {}
            accepted => break accepted.unwrap(),
        }
    };
    assert_eq!(accepted.session_id(), other);
    accepted.close().await.unwrap();
    publisher.end().await;
    bench.end().await;
}
