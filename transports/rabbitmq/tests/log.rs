//! What this transport logs of its connection.

mod support;

use std::time::Duration;

use consign::{
    Message,
    middleware::delivery_limit::count_delivery,
    transport::{ReceiverExt, ReplySource, Sender},
};
use consign_conformance::{faults::Proxy, log::Lines};
use consign_rabbitmq::{
    QueueSettings, RabbitMq, convert,
    lapin::{
        BasicProperties, Connection, ConnectionProperties,
        message::Delivery,
        options::BasicPublishOptions,
        types::{AMQPValue, FieldTable},
    },
};
use tokio::time::{sleep, timeout};

const TARGET: &str = "consign::rabbitmq";

async fn until(lines: &Lines, texts: &[&str]) {
    let all = async {
        while !texts.iter().all(|text| lines.of(TARGET).iter().any(|line| line.contains(text))) {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(60), all).await.unwrap_or_else(|_| panic!("{texts:?}: {:?}", lines.of(TARGET)));
}

/// Rules: O-279.
#[tokio::test]
async fn a_connection_that_is_not_made_is_a_warning_without_the_password() {
    let (lines, _guard) = Lines::capture();
    let options = RabbitMq::options().timeout(Duration::from_secs(5));
    let error = options.connect("amqp://ledger:s3cret@127.0.0.1:1/%2f").await.unwrap_err();
    let logged = lines.of(TARGET);
    assert_eq!(logged.len(), 1, "{logged:?}");
    let begin =
        "WARN consign::rabbitmq: connecting failed: it is tried again after a pause server=\"127.0.0.1:1\" error=";
    assert!(logged[0].starts_with(begin) && logged[0].contains("retry_in_ms="), "{logged:?}");
    let shown = format!("{:?} {error} {error:?}", lines.all());
    assert!(!shown.contains("s3cret"), "{shown}");
}

/// A redelivery of a classic queue shows in the log, for each queue; a copy of `count_delivery` does not, nor a quorum queue.
///
/// Rules: K-120.
#[tokio::test]
async fn a_redelivery_without_a_count_is_logged() {
    let (lines, _guard) = Lines::capture();
    let mut delivery = Delivery::mock(1, "".into(), "orders".into(), false, b"an order".to_vec());
    convert::from_delivery(&delivery).unwrap();
    delivery.redelivered = true;
    let counted = count_delivery(&convert::from_lapin(&delivery.properties, delivery.data.clone()).unwrap());
    let mut headers = FieldTable::default();
    headers.insert("x-delivery-count".into(), AMQPValue::LongLongInt(1));
    for properties in [convert::to_lapin(&counted).unwrap().0, BasicProperties::default().with_headers(headers)] {
        delivery.properties = properties;
        convert::from_delivery(&delivery).unwrap();
    }
    assert_eq!(lines.of(TARGET), Vec::<String>::new());

    delivery.properties = BasicProperties::default();
    for _ in 0..100 {
        assert!(convert::from_delivery(&delivery).unwrap().received().is_none());
    }
    let logged = lines.of(TARGET);
    assert!((1..=20).contains(&logged.len()), "{logged:?}");
    let begin = "INFO consign::rabbitmq: a message was redelivered, and not counted by its queue";
    let is_of = |line: &String, queue: &str| line.starts_with(begin) && line.contains(&format!("entity={queue}"));
    assert!(logged.iter().all(|line| is_of(line, "orders")), "{logged:?}");
    // Another queue has a limit of its own, and an exchange that routes does not name its queue.
    delivery.routing_key = "returns".into();
    convert::from_delivery(&delivery).unwrap();
    assert!(is_of(lines.of(TARGET).last().unwrap(), "returns"), "{:?}", lines.of(TARGET));
    delivery.exchange = "events".into();
    convert::from_delivery(&delivery).unwrap();
    assert!(!lines.of(TARGET).last().unwrap().contains("entity="), "{:?}", lines.of(TARGET));
}

/// Rules: O-279.
#[tokio::test]
async fn a_connection_that_is_lost_and_made_again_is_logged() {
    let Some(rabbit) = support::connect(support::options()).await else { return };
    let queue = support::unique("log");
    rabbit.create_queue(&queue, QueueSettings::default()).await.unwrap();
    let address = support::address();
    let (login, rest) = address.rsplit_once('@').unwrap();
    let (server, rest) = rest.split_once('/').unwrap();
    let server = tokio::net::lookup_host(server).await.unwrap().find(std::net::SocketAddr::is_ipv4).unwrap();
    let proxy = Proxy::to(server).await.unwrap();
    let options = support::options().backoff(Duration::from_millis(20), Duration::from_millis(200));
    let broken = options.connect(&format!("{login}@{}/{rest}", proxy.address())).await.unwrap();

    let (lines, _guard) = Lines::capture();
    let mut receiver = broken.receiver(&queue).unwrap();
    let receiving = async {
        loop {
            if let Ok(delivery) = receiver.receive().await {
                break delivery;
            }
        }
    };
    let failing = async {
        // The receiver subscribes meanwhile.
        sleep(Duration::from_millis(500)).await;
        proxy.refuse(true);
        proxy.cut();
        until(
            &lines,
            &["WARN consign::rabbitmq: the connection was lost", "WARN consign::rabbitmq: connecting failed"],
        )
        .await;
        proxy.refuse(false);
        until(&lines, &["INFO consign::rabbitmq: connected again"]).await;
        rabbit.sender(&queue).unwrap().send(Message::new("again")).await.unwrap();
    };
    let (delivery, ()) = timeout(Duration::from_secs(120), async { tokio::join!(receiving, failing) }).await.unwrap();
    delivery.complete().await.unwrap();
    let server = format!("server=\"{}\"", proxy.address());
    assert!(lines.of(TARGET).iter().all(|line| line.contains(&server) && !line.contains("guest")), "{:?}", lines.all());
    rabbit.delete(&queue).await.unwrap();
    broken.close().await.unwrap();
    rabbit.close().await.unwrap();
}

/// Rules: K-119.
#[tokio::test]
async fn a_body_and_annotations_that_cannot_be_decoded_are_warnings_with_the_cause() {
    let Some(rabbit) = support::connect(support::options()).await else { return };
    let queue = support::unique("malformed");
    rabbit.create_queue(&queue, QueueSettings::default()).await.unwrap();
    let connection = Connection::connect(&support::address(), ConnectionProperties::default()).await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    let mut headers = FieldTable::default();
    headers.insert("sb-body".into(), AMQPValue::LongString("amqp-1.0".into()));
    headers.insert("sb-annotations".into(), AMQPValue::ByteArray([0xd1, 0, 0, 0, 9][..].into()));
    let properties = BasicProperties::default().with_headers(headers);
    let options = BasicPublishOptions::default();
    let published = channel.basic_publish("".into(), queue.as_str().into(), options, b"secret", properties).await;
    published.unwrap().await.unwrap();

    let (lines, _guard) = Lines::capture();
    let delivery = timeout(Duration::from_secs(60), rabbit.receiver(&queue).unwrap().receive()).await.unwrap().unwrap();
    assert_eq!(delivery.message.payload(), Some(&b"secret"[..]));
    delivery.complete().await.unwrap();
    let logged = lines.of(TARGET);
    for (header, cause) in [("sb-body", "at byte 0"), ("sb-annotations", "at byte 1")] {
        let of_header = |line: &&String| line.contains(&format!("header=\"{header}\""));
        let line = logged.iter().find(of_header).unwrap_or_else(|| panic!("{header}: {logged:?}"));
        assert!(line.starts_with("WARN") && line.contains(cause) && line.contains(&queue), "{line}");
        assert!(!line.contains("secret"), "{line}");
    }
    connection.close(200, "".into()).await.unwrap();
    rabbit.delete(&queue).await.unwrap();
    rabbit.close().await.unwrap();
}

/// Rules: K-119.
#[tokio::test]
async fn a_direct_reply_that_cannot_be_decoded_is_a_warning_with_the_cause() {
    let Some(rabbit) = support::connect(support::options()).await else { return };
    let queue = support::unique("malformed-reply");
    rabbit.create_queue(&queue, QueueSettings::default()).await.unwrap();
    let (sender, mut replies) = rabbit.direct_replies(&queue).unwrap();
    let request = Message::builder().reply_to(replies.address().to_owned()).build("request").unwrap();
    sender.send(request).await.unwrap();
    let delivery = timeout(Duration::from_secs(60), rabbit.receiver(&queue).unwrap().receive()).await.unwrap().unwrap();
    // A path of pieces of the token.
    let pieces = delivery.message.reply_to().unwrap().strip_prefix("amq.rabbitmq.reply-to/").unwrap();
    let reply_to = format!("amq.rabbitmq.reply-to.{}", pieces.replace('/', "").replace('_', "/"));
    delivery.complete().await.unwrap();

    let connection = Connection::connect(&support::address(), ConnectionProperties::default()).await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    let mut headers = FieldTable::default();
    headers.insert("sb-body".into(), AMQPValue::LongString("amqp-1.0".into()));
    let properties = BasicProperties::default().with_headers(headers);
    let options = BasicPublishOptions::default();
    let (lines, _guard) = Lines::capture();
    let published = channel.basic_publish("".into(), reply_to.as_str().into(), options, b"secret", properties).await;
    published.unwrap().await.unwrap();
    let reply = timeout(Duration::from_secs(60), replies.receive()).await.unwrap().unwrap();
    assert_eq!(reply.message.payload(), Some(&b"secret"[..]));
    let logged = lines.of(TARGET);
    let line = logged.iter().find(|line| line.contains("header=\"sb-body\"")).unwrap_or_else(|| panic!("{logged:?}"));
    assert!(line.starts_with("WARN") && line.contains("at byte 0"), "{line}");
    assert!(line.contains("entity=amq.rabbitmq.reply-to") && !line.contains("secret"), "{line}");
    connection.close(200, "".into()).await.unwrap();
    rabbit.delete(&queue).await.unwrap();
    rabbit.close().await.unwrap();
}
