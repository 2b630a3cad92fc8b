//! Messages of other clients of AMQP 1.0.

use std::{collections::HashSet, future::poll_fn, task::Poll, time::Duration};

use consign::{
    Message,
    dead_letters::UnderLocks,
    message::{EntityPath, PassThrough, PropertyValue, Value as CoreValue},
    settlement::{DeadLetter, DeadLetterReason},
    transport::{DynTransport, ReceiveMode, Receiver, ReceiverExt, Transport},
};
use consign_amqp::{
    client::{Connection, Options},
    codec,
    message::{ApplicationProperties, Body, EncodedMessage, Header, MessageAnnotations, Properties, Sections},
    value::{Decimal32, List, Symbol, Value},
};
use consign_amqp10::{Amqp10, DeadLetters};
use consign_conformance::log::Lines;
use tokio::time::{sleep, timeout};

use super::{Bench, SOON, count, text};
use crate::support::managed::Queues;

async fn send(bench: &Bench, encoded: Vec<u8>) {
    send_to(bench, bench.queue.as_str(), encoded).await;
}

/// Receives the sections of a message as they are.
pub(crate) async fn read_raw(bench: &Bench, address: &str) -> Sections {
    let connection = Connection::connect(bench.proton.socket(), Options::new("foreign")).await.unwrap();
    let session = connection.begin().await.unwrap();
    let mut receiver = session.attach_receiver("foreign", address.to_owned()).await.unwrap();
    receiver.set_credit(1).unwrap();
    let raw = timeout(SOON, receiver.recv()).await.unwrap().unwrap();
    Sections::decode(&EncodedMessage::split(raw.payload.into_bytes()).unwrap()).unwrap()
}

async fn send_to(bench: &Bench, address: &str, encoded: Vec<u8>) {
    let connection = Connection::connect(bench.proton.socket(), Options::new("foreign")).await.unwrap();
    let session = connection.begin().await.unwrap();
    let sender = session.attach_sender("foreign", address.to_owned()).await.unwrap();
    sender.send(encoded).await.unwrap();
}

/// Rules: K-282.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_of_another_client_is_read() {
    let Some(bench) = Bench::new().await else { return };
    let mut annotations = consign_amqp::message::Annotations::default();
    // Of a type that this transport does not write.
    annotations.push(Symbol::from_static("x-opt-consign-sequence-number"), Value::from("seven"));
    let sections = Sections {
        header: Some(Header { delivery_count: 0, ..Header::default() }),
        message_annotations: Some(MessageAnnotations(annotations)),
        properties: Some(Properties { subject: Some("order".into()), ..Properties::default() }),
        body: Body::Data(vec![b"{}".to_vec().into()]),
        ..Sections::default()
    };
    send(&bench, codec::encode(&sections).unwrap().to_vec()).await;
    let delivery = timeout(SOON, bench.receiver().await.receive()).await.unwrap().unwrap();
    let message = &delivery.message;
    assert_eq!((text(message), message.subject(), count(message)), ("{}", Some("order"), 1));
    assert_eq!(message.received().map(|received| received.sequence_number.get()), Some(0));
    delivery.complete().await.unwrap();
}

/// Rules: K-289.
#[tokio::test]
async fn a_property_that_a_message_cannot_have_is_an_annotation_and_stays_on_copies() {
    let (lines, _guard) = Lines::capture();
    let Some(bench) = Bench::new().await else { return };
    let of_list = Value::from(List(vec![1_i32.into(), "two".into()]));
    let price = Value::from(Decimal32([1, 2, 3, 4]));
    let application =
        vec![("list".into(), of_list.clone()), ("tenant".into(), Value::Int(7)), ("größe".into(), price.clone())];
    let sections = Sections {
        header: Some(Header { ttl: Some(0), ..Header::default() }),
        properties: Some(Properties {
            message_id: Some("".into()),
            subject: Some("order".into()),
            content_type: Some(Symbol::from_static("application/json")),
            ..Properties::default()
        }),
        application_properties: Some(ApplicationProperties(application)),
        body: Body::Data(vec![b"{}".to_vec().into()]),
        ..Sections::default()
    };
    send(&bench, codec::encode(&sections).unwrap().to_vec()).await;
    let delivery = timeout(SOON, bench.receiver().await.receive()).await.unwrap().unwrap();
    let message = &delivery.message;
    assert_eq!((text(message), message.subject(), message.message_id()), ("{}", Some("order"), None));
    assert_eq!((message.content_type(), message.time_to_live()), (Some("application/json"), None));
    assert_eq!(message.application_properties().get("tenant"), Some(&PropertyValue::I32(7)));
    assert_eq!(message.application_properties().len(), 1);
    let kept = message.pass_through().and_then(|rest| rest.annotation(PassThrough::APPLICATION_PROPERTIES));
    let Some(CoreValue::Map(kept)) = kept else { panic!("{kept:?}") };
    assert_eq!(kept[0], ("list".into(), CoreValue::List(vec![1_i32.into(), "two".into()])));
    // The copy for the dead-letter address has them as its sender has set them.
    delivery.dead_letter(DeadLetter::new(DeadLetterReason::HandlerPermanent, "why")).await.unwrap();
    let dead = read_raw(&bench, bench.queue.dead_letter().as_str()).await.application_properties.unwrap();
    let of = |name: &str| dead.0.iter().find(|(key, _)| *key == *name).map(|(_, value)| value.clone());
    assert_eq!((of("list"), of("tenant"), of("größe")), (Some(of_list), Some(Value::Int(7)), Some(price)));
    assert_eq!(lines.of("consign::amqp10"), [""; 0]);
}

/// Rules: K-289.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_id_that_is_too_long_is_a_property() {
    let Some(bench) = Bench::new().await else { return };
    let id = "x".repeat(129);
    let properties = Properties { message_id: Some(id.as_str().into()), ..Properties::default() };
    let sections = Sections { properties: Some(properties), ..Sections::default() };
    send(&bench, codec::encode(&sections).unwrap().to_vec()).await;
    let delivery = timeout(SOON, bench.receiver().await.receive()).await.unwrap().unwrap();
    let property = delivery.message.application_properties().get("message_id").and_then(PropertyValue::as_str);
    assert_eq!((delivery.message.message_id(), property), (None, Some(&*id)));
    delivery.complete().await.unwrap();
}

/// Rules: K-283.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_a_message_is_dead_lettered_with_a_warning() {
    let (lines, _guard) = Lines::capture();
    let Some(bench) = Bench::new().await else { return };
    let properties = Properties { group_id: Some("x".repeat(129).as_str().into()), ..Properties::default() };
    let sections = Sections { properties: Some(properties), ..Sections::default() };
    let refused = codec::encode(&sections).unwrap().to_vec();
    let malformed = b"\x00\x53\x7f\x40".to_vec();
    for (encoded, why) in [(refused, "at `group-id` in properties"), (malformed, "the message cannot be decoded: ")] {
        send(&bench, encoded.clone()).await;
        bench.send(["next"]).await;
        let mut receiver = bench.receiver().await;
        let next = timeout(SOON, receiver.receive()).await.unwrap().unwrap();
        assert_eq!(text(&next.message), "next");
        next.complete().await.unwrap();
        let mut dead = super::receiver(&bench.amqp, &bench.queue.dead_letter()).await;
        let dead = timeout(SOON, dead.receive()).await.unwrap().unwrap();
        assert!(dead.message.payload().unwrap().ends_with(&encoded), "{:?}", dead.message.payload());
        assert_eq!(dead.message.dead_letter_reason(), Some("MalformedMessage"));
        let description = dead.message.dead_letter_description().unwrap();
        assert!(description.contains(why), "{description}");
        dead.complete().await.unwrap();
    }
    let warned = lines.of("consign::amqp10");
    assert!(warned.iter().all(|line| line.contains("dead-lettered as MalformedMessage")), "{warned:?}");
    assert!(warned.iter().any(|line| line.contains("group-id")), "{warned:?}");
}

/// Rules: K-283.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_a_message_is_delivered_as_bytes_where_it_cannot_be_dead_lettered() {
    let (lines, _guard) = Lines::capture();
    let Some(bench) = Bench::new().await else { return };
    let malformed = b"\x00\x53\x7f\x40".to_vec();
    send_to(&bench, bench.queue.dead_letter().as_str(), malformed.clone()).await;
    let mut dead = super::receiver(&bench.amqp, &bench.queue.dead_letter()).await;
    for _ in 0..2 {
        let delivery = timeout(SOON, dead.receive()).await.unwrap().unwrap();
        assert!(delivery.message.payload().unwrap().ends_with(&malformed), "{:?}", delivery.message.payload());
        delivery.abandon().await.unwrap();
    }
    let warned = lines.of("consign::amqp10");
    assert!(!warned.is_empty() && warned[0].contains("delivered as bytes"), "{warned:?}");
}

/// `consign peek`, `consign export` and the web UI list by this.
///
/// Rules: K-283.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_a_message_stays_in_the_queue_that_is_listed() {
    let Some(bench) = Bench::new().await else { return };
    let malformed = b"\x00\x53\x7f\x40".to_vec();
    send(&bench, malformed.clone()).await;
    bench.send(["next"]).await;
    let transport = DynTransport::from(bench.amqp.clone());
    for _ in 0..2 {
        let receiver = transport.receiver(&bench.queue, ReceiveMode::PeekLock).await.unwrap();
        let mut listed = Vec::new();
        let mut each = |message: Message| {
            listed.push(message.payload().unwrap_or_default().to_vec());
            2_usize.saturating_sub(listed.len())
        };
        let list = UnderLocks { operation: SOON, expected: Some(2) };
        timeout(SOON, list.list(receiver, 2, std::future::pending(), &mut each)).await.unwrap().unwrap();
        assert!(listed[0].ends_with(&malformed) && listed[1] == b"next", "{listed:?}");
    }
    // A receiver that may settle it dead-letters it.
    let next = timeout(SOON, bench.receiver().await.receive()).await.unwrap().unwrap();
    assert_eq!(text(&next.message), "next");
    let dead = super::receiver(&bench.amqp, &bench.queue.dead_letter()).await.receive().await.unwrap();
    assert_eq!(dead.message.dead_letter_reason(), Some("MalformedMessage"));
}

/// A broker without a dead-letter address redelivers the message, with its count, after a pause.
///
/// Rules: K-278, K-283.
#[tokio::test]
async fn what_is_not_a_message_waits_for_its_dead_letter_address() {
    let (lines, _guard) = Lines::capture();
    let Some(bench) = Bench::new().await else { return };
    let dead = bench.queue.dead_letter();
    bench.proton.queues().delete(dead.as_str()).await.unwrap();
    send(&bench, b"\x00\x53\x7f\x40".to_vec()).await;
    let mut receiver = bench.receiver().await;
    let has_failed = || lines.of("consign::amqp10").iter().any(|line| line.contains("dead_letter_address"));
    let failed = async {
        while !has_failed() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        failed = timeout(SOON, failed) => failed.unwrap(),
        received = receiver.receive() => panic!("{received:?}"),
    }
    bench.proton.queues().create(dead.as_str()).await.unwrap();
    bench.send(["next"]).await;
    let next = timeout(SOON, receiver.receive()).await.unwrap().unwrap();
    assert_eq!(text(&next.message), "next");
    let mut from = super::receiver(&bench.amqp, &dead).await;
    let dead = tokio::select! {
        dead = timeout(SOON, from.receive()) => dead.unwrap().unwrap(),
        other = receiver.receive() => panic!("{other:?}"),
    };
    assert_eq!(dead.message.dead_letter_reason(), Some("MalformedMessage"));
    // A delivery has failed in each second before.
    assert!(count(&dead.message) >= 2, "{}", count(&dead.message));
    let warned = lines.of("consign::amqp10");
    let of_address = warned[1..].iter().filter(|line| line.contains("dead_letter_address")).count();
    assert!(of_address >= 1 && of_address == warned.len() - 1, "{warned:?}");
}

/// While more than 64 cannot be dead-lettered, the receiver requests no message, and continues when they can.
///
/// Rules: K-283.
#[tokio::test]
async fn a_receiver_waits_with_a_bounded_number_of_messages_that_cannot_be_decoded() {
    let (lines, _guard) = Lines::capture();
    let Some(bench) = Bench::new().await else { return };
    let dead = bench.queue.dead_letter();
    bench.proton.queues().delete(dead.as_str()).await.unwrap();
    let connection = Connection::connect(bench.proton.socket(), Options::new("foreign")).await.unwrap();
    let session = connection.begin().await.unwrap();
    let sender = session.attach_sender("foreign", bench.queue.as_str().to_owned()).await.unwrap();
    let malformed = |number: u8| [&b"\x00\x53\x7f\x50"[..], &[number]].concat();
    for number in 0..70 {
        sender.send(malformed(number)).await.unwrap();
    }
    bench.send(["next"]).await;
    let mut receiver = bench.receiver().await;
    let is_full = || lines.of("consign::amqp10").iter().any(|line| line.contains("too many messages"));
    let full = poll_fn(|cx| {
        assert!(receiver.poll_receive(cx, 1, &mut Vec::new()).is_pending());
        if is_full() { Poll::Ready(()) } else { Poll::Pending }
    });
    timeout(SOON, full).await.unwrap();
    for _ in 0..20 {
        let is_pending = poll_fn(|cx| Poll::Ready(receiver.poll_receive(cx, 1, &mut Vec::new()).is_pending())).await;
        assert!(is_pending);
    }
    let full = lines.of("consign::amqp10").into_iter().filter(|line| line.contains("too many messages"));
    assert_eq!(full.count(), 1);

    bench.proton.queues().create(dead.as_str()).await.unwrap();
    let next = timeout(SOON, receiver.receive()).await.unwrap().unwrap();
    assert_eq!(text(&next.message), "next");
    next.complete().await.unwrap();
    let mut from = super::receiver(&bench.amqp, &dead).await;
    let mut numbers = HashSet::new();
    while numbers.len() < 70 {
        let dead = tokio::select! {
            dead = timeout(SOON, from.receive()) => dead.unwrap().unwrap(),
            other = receiver.receive() => panic!("{other:?}"),
        };
        // No message has a second dead letter.
        assert!(numbers.insert(dead.message.payload().unwrap().last().copied()));
        dead.complete().await.unwrap();
    }
}

/// Rules: K-277, K-283.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_a_message_is_rejected_where_the_broker_dead_letters() {
    let Some(bench) = Bench::with(Amqp10::options().dead_letters(DeadLetters::Reject)).await else { return };
    let dead = EntityPath::new(&format!("dead/{}", bench.queue)).unwrap();
    bench.proton.queues().create(dead.as_str()).await.unwrap();
    let malformed = b"\x00\x53\x7f\x40".to_vec();
    send(&bench, malformed.clone()).await;
    bench.send(["next"]).await;
    let mut receiver = bench.receiver().await;
    let next = timeout(SOON, receiver.receive()).await.unwrap().unwrap();
    assert_eq!(text(&next.message), "next");
    // A receiver of this transport would reject it again.
    let connection = Connection::connect(bench.proton.socket(), Options::new("foreign")).await.unwrap();
    let session = connection.begin().await.unwrap();
    let mut receiver = session.attach_receiver("foreign", dead.as_str().to_owned()).await.unwrap();
    receiver.set_credit(1).unwrap();
    let dead = timeout(SOON, receiver.recv()).await.unwrap().unwrap().payload.into_bytes();
    assert!(dead.ends_with(&malformed), "{dead:?}");
}
