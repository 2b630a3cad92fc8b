//! Publishers, over the embedded broker and over a simulated connection.

use std::time::Duration;

use consign::{
    Message, MessageExt,
    administration::{Administration, QueueSettings},
    broker::Broker,
    codecs::{Codecs, Json, MessagePack},
    message::EntityPath,
    message_types::MessageTypes,
    middleware::{
        encode::OutboundMessage, retry::Backoff, send_retry::SendRetryLayer, size_limit::SizeLimitLayer,
        trace::TraceLayer,
    },
    publisher::Publisher,
    testing::{Faults, Link, SendFault, TestBroker},
    transport::{Batch, DynTransport, ErrorKind, ReceiveMode, ReceiverExt, Transport},
};
use futures_util::{FutureExt, future::join_all};
use serde::Serialize;
use tower::timeout::TimeoutLayer;

use crate::support::{far, settle_down};

#[derive(Serialize)]
struct Order {
    id: u64,
}

const SECOND: Duration = Duration::from_secs(1);

fn properties(message: &Message) -> (Option<&str>, Option<&str>, Option<&str>) {
    (message.subject(), message.content_type(), message.session_id())
}

/// The state of an application: its type can be written down.
#[derive(Clone)]
struct App {
    orders: Publisher,
}

#[tokio::test]
async fn a_publisher_in_a_state_sends_values_of_several_types() {
    let queue = TestBroker::new().queue("orders");
    let app = App { orders: Publisher::new(Codecs::json(), queue.sender().unwrap()) };
    let publish = app.orders.publish("order.placed", &Order { id: 1 });
    // The future borrows neither the publisher nor the value.
    let orders = app.clone().orders;
    drop(app);
    tokio::spawn(publish).await.unwrap().unwrap();
    orders.publish(String::from("note"), "text").await.unwrap();
    let message = orders.message("order.placed").session_id("s").property("tenant", 7).time_to_live(60 * SECOND);
    message.message_id("m").send(&Order { id: 2 }).await.unwrap();

    let messages = queue.messages();
    assert_eq!(properties(&messages[0]), (Some("order.placed"), Some("application/json"), None));
    assert_eq!(properties(&messages[1]), (Some("note"), Some("application/json"), None));
    assert_eq!(properties(&messages[2]), (Some("order.placed"), Some("application/json"), Some("s")));
    assert_eq!(messages[2].application_properties().get("tenant"), Some(&7.into()));
    assert_eq!((messages[2].message_id(), messages[2].time_to_live()), (Some("m"), Some(60 * SECOND)));
    let bodies: Vec<_> = messages.iter().map(|message| message.payload().unwrap()).collect();
    assert_eq!(bodies, [&br#"{"id":1}"#[..], br#""text""#, br#"{"id":2}"#]);
    assert_eq!(messages[0].message_id().map(str::len), Some(36));
    assert_ne!(messages[0].message_id(), messages[1].message_id());
}

#[tokio::test(start_paused = true)]
async fn a_delay_is_by_the_clock_of_the_sender() {
    let queue = TestBroker::new().queue("orders");
    let publisher = Publisher::new(Codecs::json(), queue.sender().unwrap()).clone();
    publisher.message("later").delay(60 * SECOND).send(&1).await.unwrap();
    let mut receiver = queue.receiver();
    assert!(receiver.receive_within(59 * SECOND).await.is_err());
    let delivery = receiver.receive_within(2 * SECOND).await.unwrap();
    assert_eq!(delivery.message.subject(), Some("later"));
}

#[tokio::test]
async fn a_send_that_is_not_awaited_sends_nothing() {
    let queue = TestBroker::new().queue("orders");
    let publisher = Publisher::new(Codecs::json(), queue.sender().unwrap());
    drop(publisher.publish("a", &1));
    assert_eq!(queue.messages().len(), 0);
}

#[tokio::test]
async fn the_codec_is_that_of_the_message_or_the_first() {
    let queue = TestBroker::new().queue("orders");
    let codecs = Codecs::builder().with(Json::default()).with(MessagePack).build().unwrap();
    let publisher = Publisher::new(codecs.clone(), queue.sender().unwrap());
    publisher.publish("a", &7).await.unwrap();
    publisher.message("a").codec("msgpack").send(&7).await.unwrap();
    let error = publisher.message("a").codec("cbor").send(&7).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Serialization);
    let messages = queue.messages();
    assert_eq!(messages[0].content_type(), Some("application/json"));
    assert_eq!(messages[1].content_type(), Some("application/msgpack"));
    assert!(messages.iter().all(|message| message.decode::<u64, _>(&codecs).unwrap() == 7));
    assert_eq!(messages.len(), 2);
}

#[derive(MessageTypes)]
enum Event {
    #[message("order.shipped", version = 2)]
    Shipped(u64),
}

#[tokio::test]
async fn a_value_of_an_enum_of_types_has_its_type() {
    let queue = TestBroker::new().queue("orders");
    let publisher = Publisher::new(Codecs::json(), queue.sender().unwrap());
    publisher.send(OutboundMessage::typed(Event::Shipped(7))).await.unwrap();
    let messages = queue.messages();
    assert_eq!((messages[0].subject(), messages[0].payload()), (Some("order.shipped"), Some(&b"7"[..])));
    assert_eq!(messages[0].application_properties().get("x-message-version"), Some(&2_u32.into()));
}

#[tokio::test]
async fn what_cannot_be_encoded_or_breaks_a_rule_is_not_sent() {
    struct Unwritable;
    impl Serialize for Unwritable {
        fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            Err(serde::ser::Error::custom("it has no form"))
        }
    }
    let queue = TestBroker::new().queue("orders");
    let publisher = Publisher::new(Codecs::json(), queue.sender().unwrap());
    let error = publisher.publish("a", &Unwritable).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Serialization);
    let error = publisher.message("a").session_id("x".repeat(200)).send(&7).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert_eq!(publisher.publish_batch("a", &[Unwritable]).await.unwrap_err().kind(), ErrorKind::Serialization);
    assert_eq!(queue.messages().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_one_transfer() {
    let queue = TestBroker::new().queue("orders");
    let link = Link::new(far());
    let publisher = Publisher::new(Codecs::json(), link.sender(queue.sender().unwrap()));
    publisher.publish_batch("order.placed", &[Order { id: 1 }, Order { id: 2 }]).await.unwrap();
    assert_eq!((link.transfers(), queue.messages().len()), (1, 2));
    let mixed = [publisher.message("a").encode(&Order { id: 3 }).unwrap(), publisher.message("b").encode("x").unwrap()];
    publisher.send_batch(Batch::from(mixed)).await.unwrap();
    assert_eq!((link.transfers(), queue.messages().len()), (2, 4));
    assert!(queue.messages().iter().all(|message| message.message_id().is_some()));
    publisher.publish_batch::<Order>("a", []).await.unwrap();
    assert_eq!(link.transfers(), 2);
}

#[tokio::test(start_paused = true)]
async fn at_most_a_hundred_sends_are_in_flight_unless_set() {
    for limit in [None, Some(3)] {
        let queue = TestBroker::new().queue("orders");
        let link = Link::new(far());
        let mut builder = Publisher::builder(Codecs::json());
        if let Some(limit) = limit {
            builder = builder.in_flight(limit);
        }
        let publisher = builder.build(link.sender(queue.sender().unwrap()));
        let clone = publisher.clone();
        let sends: Vec<_> = (0..200).map(|id| clone.publish("a", &Order { id })).collect();
        let sending = tokio::spawn(join_all(sends));
        settle_down().await;
        assert_eq!(link.transfers(), limit.unwrap_or(100) as u64);
        assert!(sending.await.unwrap().iter().all(Result::is_ok));
        assert_eq!(queue.messages().len(), 200);
    }
}

#[tokio::test(start_paused = true)]
async fn a_retry_repeats_the_id_and_the_bytes() {
    let settings = QueueSettings::default().duplicate_detection(600 * SECOND);
    let queue = TestBroker::new().queue_with("orders", settings);
    let faults = Faults::none().on_send(1, SendFault::LoseAnswer(ErrorKind::CommunicationProblem));
    let link = Link::new(far().faults(faults));
    let publisher = Publisher::builder(Codecs::json())
        .layer(TraceLayer::sending("orders"))
        .layer(TimeoutLayer::new(60 * SECOND))
        .layer(SendRetryLayer::new(Backoff::fixed(SECOND)).repeat_unknown_outcome())
        .build(link.sender(queue.sender().unwrap()));
    publisher.publish("a", &Order { id: 1 }).await.unwrap();
    assert_eq!((link.transfers(), queue.messages().len()), (2, 1));
}

#[tokio::test]
async fn layers_get_the_encoded_message() {
    let queue = TestBroker::new().queue("orders");
    let publisher = Publisher::builder(Codecs::json()).layer(SizeLimitLayer::new(200)).build(queue.sender().unwrap());
    publisher.publish("a", "short").await.unwrap();
    let error = publisher.publish("a", &"x".repeat(200)).await.unwrap_err();
    assert_eq!((error.kind(), queue.messages().len()), (ErrorKind::MessageSizeExceeded, 1));
}

#[tokio::test]
async fn a_transport_whose_type_is_erased_publishes() {
    let transport: DynTransport = Broker::new().into();
    let orders = EntityPath::new("orders").unwrap();
    transport.declare(&orders, &QueueSettings::default().into()).await.unwrap();
    let publisher = Publisher::new(Codecs::json(), transport.sender(&orders).await.unwrap());
    publisher.publish("a", &Order { id: 1 }).await.unwrap();
    let delivery = transport.receiver(&orders, ReceiveMode::PeekLock).await.unwrap().receive().await.unwrap();
    assert_eq!(delivery.message.payload(), Some(&br#"{"id":1}"#[..]));
    delivery.complete().await.unwrap();
}

#[tokio::test]
async fn a_scheduled_message_is_visible_when_it_is_due() {
    let broker = TestBroker::new();
    let queue = broker.queue("orders");
    let publisher = Publisher::new(Codecs::json(), queue.sender().unwrap());
    let due = broker.now().saturating_add(60 * SECOND);
    publisher.message("a").scheduled_enqueue_time(due).send(&1).await.unwrap();
    let mut receiver = queue.receiver();
    assert!(receiver.receive().now_or_never().is_none());
    broker.advance(60 * SECOND);
    receiver.receive().await.unwrap().complete().await.unwrap();
}
