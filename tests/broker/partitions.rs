//! Partitioned entities.

use std::{collections::BTreeSet, time::Duration};

use consign::{
    Message,
    administration::TopicSettings,
    broker::Queue,
    message::SequenceNumber,
    transport::{Batch, ErrorKind, Lease, Sender},
};

use crate::{
    namespace::{Namespace, counts, peek, receive, send, try_send, try_take},
    support::{Ended, facts, settings, text},
    topics::subscribe,
};

const PARTITIONS: i16 = 16;

fn partitioned(namespace: &Namespace) -> Queue {
    namespace.queue_with("orders", settings().partitioned(true))
}

fn keyed(key: &str) -> Message {
    Message::builder().partition_key(key.to_owned()).build(key.to_owned()).unwrap()
}

fn send_keyed(queue: &Queue, keys: &[&str]) {
    for key in keys {
        try_send(&queue.sender().unwrap(), keyed(key)).unwrap();
    }
}

/// The partition and the count within it.
fn place(message: &Message) -> (i16, u64) {
    let number = facts(message).sequence_number.get();
    let partition = i16::try_from(number >> 48).unwrap();
    assert_eq!(facts(message).partition_id, Some(partition));
    (partition, number & ((1 << 48) - 1))
}

/// Rules: Q-04, M-26.
#[test]
fn a_number_is_the_partition_and_a_count_from_1() {
    let namespace = Namespace::new();
    let queue = partitioned(&namespace);
    for body in 0..64 {
        send(&queue, body.to_string());
    }
    let places: Vec<_> = peek(&queue).iter().map(place).collect();
    // In turn, so each of the 16 has four.
    let expected: Vec<_> = (0..PARTITIONS).flat_map(|partition| (1..=4).map(move |count| (partition, count))).collect();
    assert_eq!(places, expected);
}

/// Rules: M-26.
#[test]
fn without_partitions_a_message_has_none() {
    let namespace = Namespace::new();
    let queue = namespace.queue("orders");
    send(&queue, "a");
    assert_eq!(facts(&receive(&queue).message).partition_id, None);
}

/// Rules: Q-04.
#[test]
fn numbers_of_a_partition_rise_by_one_and_are_not_used_again() {
    let namespace = Namespace::new();
    let queue = partitioned(&namespace);
    for count in 1..=3 {
        send_keyed(&queue, &["key"]);
        let delivery = receive(&queue);
        assert_eq!(place(&delivery.message).1, count);
        delivery.complete().ok();
    }
}

/// Rules: Q-06.
#[test]
fn numbers_are_compared_as_unsigned() {
    let (large, small) = (SequenceNumber::new(1 << 63), SequenceNumber::new(i64::MAX as u64));
    assert!(large > small);
    assert_eq!(SequenceNumber::new(u64::MAX).next(), SequenceNumber::new(0));
    assert_eq!(large.get().cast_signed(), i64::MIN);
}

/// Rules: Q-07.
#[test]
fn equal_keys_share_a_partition() {
    let namespace = Namespace::new();
    let queue = partitioned(&namespace);
    let keys: Vec<String> = (0..100).map(|key| format!("key-{key}")).collect();
    for _ in 0..3 {
        for key in &keys {
            send_keyed(&queue, &[key]);
        }
    }
    let mut used = BTreeSet::new();
    for key in &keys {
        let of_key: BTreeSet<_> =
            peek(&queue).iter().filter(|message| text(message) == key).map(|message| place(message).0).collect();
        assert_eq!(of_key.len(), 1, "{key}");
        used.extend(of_key);
    }
    // A hundred keys leave none of 16 partitions out, unless the hash is a poor one.
    assert_eq!(used.len(), 16);
}

/// Rules: Q-07.
#[test]
fn a_key_does_not_name_a_partition() {
    let namespace = Namespace::new();
    let queue = partitioned(&namespace);
    let keys: Vec<String> = (0..PARTITIONS).map(|key| key.to_string()).collect();
    for key in &keys {
        send_keyed(&queue, &[key]);
    }
    assert!(peek(&queue).iter().any(|message| text(message) != place(message).0.to_string()));
}

/// Rules: Q-07.
#[test]
fn a_session_goes_before_a_key_and_before_an_id() {
    let namespace = Namespace::new();
    let queue =
        namespace.queue_with("orders", settings().partitioned(true).duplicate_detection(Duration::from_secs(60)));
    let sender = queue.sender().unwrap();
    let partition = |message: Message| {
        try_send(&sender, message).unwrap();
        let delivery = receive(&queue);
        let (partition, _) = place(&delivery.message);
        delivery.complete().ok();
        partition
    };
    let build = |session: Option<&str>, key: Option<&str>, id: String| {
        let mut builder = Message::builder().message_id(id);
        if let Some(session) = session {
            builder = builder.session_id(session.to_owned());
        }
        if let Some(key) = key {
            builder = builder.partition_key(key.to_owned());
        }
        builder.build("").unwrap()
    };
    let mut ids = (0..).map(|id| format!("id-{id}"));
    let mut next = || ids.next().unwrap();
    for text in ["one", "two", "three", "four"] {
        // The same text as session, as key, and as id.
        let by_session = partition(build(Some(text), None, next()));
        assert_eq!(partition(build(Some(text), Some(text), next())), by_session);
        assert_eq!(partition(build(None, Some(text), next())), by_session);
        assert_eq!(partition(build(None, None, text.to_owned())), by_session);
    }
    // The id decides nothing beside a key.
    let by_key: BTreeSet<_> = (0..50).map(|_| partition(build(None, Some("key"), next()))).collect();
    let by_id: BTreeSet<_> = (0..50).map(|_| partition(build(None, None, next()))).collect();
    assert!(by_key.len() == 1 && by_id.len() > 8, "{by_key:?} {by_id:?}");
}

/// Rules: Q-07.
#[test]
fn an_id_decides_nothing_without_duplicate_detection() {
    let namespace = Namespace::new();
    let queue = partitioned(&namespace);
    for _ in 0..16 {
        try_send(&queue.sender().unwrap(), Message::builder().message_id("same").build("").unwrap()).unwrap();
    }
    let partitions: Vec<_> = peek(&queue).iter().map(|message| place(message).0).collect();
    assert_eq!(partitions, (0..PARTITIONS).collect::<Vec<_>>());
}

/// Rules: T-34.
#[test]
fn receives_go_by_acceptance_and_peeks_by_number() {
    let namespace = Namespace::new();
    let queue = partitioned(&namespace);
    let bodies: Vec<String> = (0..20).map(|body| body.to_string()).collect();
    for body in &bodies {
        send(&queue, body.clone());
    }
    let peeked: Vec<_> = peek(&queue).iter().map(|message| facts(message).sequence_number).collect();
    assert!(peeked.is_sorted());
    let mut held = try_take(&queue, 20).unwrap();
    assert!(held.iter().map(|delivery| text(&delivery.message)).eq(bodies.iter()));
    // What comes back takes its place among the others, in whatever partition.
    held.remove(18).lease.release().ok();
    held.remove(3).lease.release().ok();
    held.remove(0).abandon().ok();
    send(&queue, "new");
    let again = try_take(&queue, 20).unwrap();
    assert!(again.iter().map(|delivery| text(&delivery.message)).eq(["0", "3", "18", "new"]));
}

/// Rules: T-34.
#[test]
fn a_peek_goes_on_from_any_number() {
    let namespace = Namespace::new();
    let queue = partitioned(&namespace);
    for body in 0..48 {
        send(&queue, body.to_string());
    }
    let all: Vec<_> = peek(&queue).iter().map(|message| facts(message).sequence_number).collect();
    let mut cursor = queue.receiver();
    let mut seen = Vec::new();
    loop {
        let peeked = cursor.peek(7);
        if peeked.is_empty() {
            break;
        }
        seen.extend(peeked.iter().map(|message| facts(message).sequence_number));
    }
    assert_eq!(seen, all);
    assert_eq!(queue.peek(SequenceNumber::new(5 << 48), 1).first().map(place), Some((5, 1)));
}

/// Rules: Q-04.
#[test]
fn a_deferred_message_comes_back_by_its_number() {
    let namespace = Namespace::new();
    let queue = partitioned(&namespace);
    send_keyed(&queue, &["a", "b", "c"]);
    let delivery = receive(&queue);
    let number = facts(&delivery.message).sequence_number;
    delivery.defer().ok();
    let mut again = queue.receive_deferred(&[number]).unwrap();
    assert_eq!(text(&again[0].message), "a");
    again.remove(0).complete().ok();
    assert_eq!(counts(&queue), [2, 0, 0, 0, 0]);
}

/// Rules: Q-04.
#[test]
fn a_partitioned_topic_numbers_its_scheduled_messages_by_partition() {
    let namespace = Namespace::new();
    let topic = namespace.broker.create_topic("events", TopicSettings::default().partitioned(true)).unwrap();
    let subscription = subscribe(&topic, "s");
    let at = crate::support::START.saturating_add(Duration::from_secs(1));
    let numbers = topic.schedule(vec![keyed("a"), keyed("a")], at).wait().unwrap();
    topic.schedule(vec![keyed("b")], at).wait().unwrap();
    assert_eq!(numbers[0].get() >> 48, numbers[1].get() >> 48);
    assert_eq!(numbers[1].get() - numbers[0].get(), 1);
    namespace.advance(Duration::from_secs(1));
    // A subscription has numbers of its own, and no partitions.
    let copies: Vec<_> = peek(&subscription).iter().map(|copy| *facts(copy)).collect();
    assert!(copies.iter().map(|copy| copy.sequence_number.get()).eq(1..=3));
    assert!(copies.iter().all(|copy| copy.partition_id.is_none()));
}

/// Rules: T-84.
#[test]
fn a_batch_has_one_key() {
    let namespace = Namespace::new();
    let queue = partitioned(&namespace);
    let sender = queue.sender().unwrap();
    let send = |messages: Vec<Message>| sender.send_batch(Batch::from(messages)).wait().map_err(|error| error.kind());
    let session = |id: &'static str| Message::builder().session_id(id).build(id).unwrap();
    for mixed in [
        vec![keyed("a"), keyed("b")],
        vec![keyed("a"), keyed("a"), Message::new("without")],
        vec![session("a"), session("b")],
        vec![Message::new("without"), session("a")],
    ] {
        assert_eq!(send(mixed).err(), Some(ErrorKind::InvalidOperation));
        assert_eq!(counts(&queue), [0; 5]);
    }
    let at = crate::support::START.saturating_add(Duration::from_secs(1));
    let scheduled = queue.schedule(vec![keyed("a"), keyed("b")], at).wait().unwrap_err();
    assert_eq!((scheduled.kind(), counts(&queue)), (ErrorKind::InvalidOperation, [0; 5]));
    send(vec![keyed("a"), keyed("a"), session("a")]).unwrap();
    let places: Vec<_> = peek(&queue).iter().map(place).collect();
    assert_eq!(places.iter().map(|(_, count)| *count).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(places.iter().all(|(partition, _)| *partition == places[0].0));
    // Elsewhere a batch may have any.
    let plain = namespace.queue("plain");
    plain.sender().unwrap().send_batch(Batch::from([keyed("a"), keyed("b")])).wait().unwrap();
}

/// Rules: T-84.
#[test]
fn a_batch_without_keys_is_accepted() {
    let namespace = Namespace::new();
    let queue = partitioned(&namespace);
    let batch = Batch::from([Message::new("a"), Message::new("b")]);
    queue.sender().unwrap().send_batch(batch).wait().unwrap();
    assert_eq!(counts(&queue), [2, 0, 0, 0, 0]);
}
