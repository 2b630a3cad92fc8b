//! Routing keys, and the history of a message, of topologies that another program has declared.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use consign::{
    Message,
    message::{PropertyValue, Value},
    settlement::{DeadLetter, DeadLetterReason},
    time::{Clock, SystemClock, Timestamp},
    transport::{ErrorKind, ReceiverExt, Sender as _},
};
use consign_rabbitmq::{
    QueueSettings, convert,
    lapin::{
        BasicProperties, ExchangeKind,
        options::{
            BasicPublishOptions, ExchangeDeclareOptions, ExchangeDeleteOptions, QueueBindOptions, QueueDeclareOptions,
            QueueDeleteOptions,
        },
        types::{AMQPValue, FieldTable},
    },
};

use crate::{
    SOON, support,
    wrapped::{Theirs, text, wrap_lapin},
};

fn why() -> DeadLetter {
    DeadLetter::new(DeadLetterReason::HandlerPermanent, "why")
}

/// Declares an exchange and binds a queue to it.
async fn bind(theirs: &Theirs, kind: ExchangeKind, queue: &str, key: &str) -> String {
    let exchange = support::unique("exchange");
    let (options, none) = (ExchangeDeclareOptions::default(), FieldTable::default());
    theirs.channel.exchange_declare(exchange.as_str().into(), kind, options, none.clone()).await.unwrap();
    let options = QueueBindOptions::default();
    theirs.channel.queue_bind(queue.into(), exchange.as_str().into(), key.into(), options, none).await.unwrap();
    exchange
}

async fn publish(theirs: &Theirs, exchange: &str, key: &str, properties: BasicProperties) {
    let options = BasicPublishOptions::default();
    let publishing = theirs.channel.basic_publish(exchange.into(), key.into(), options, b"body", properties);
    publishing.await.unwrap().await.unwrap();
}

async fn delete(theirs: &Theirs, exchange: &str) {
    theirs.channel.exchange_delete(exchange.into(), ExchangeDeleteOptions::default()).await.unwrap();
}

/// Rules: K-126.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_routing_key_of_a_registered_queue_is_the_subject() {
    let Some(theirs) = Theirs::declare(&[("x-dead-letter-exchange", text("DLX"))]).await else { return };
    let events = bind(&theirs, ExchangeKind::Topic, &theirs.queue, "order.*").await;
    publish(&theirs, &events, "order.placed", BasicProperties::default()).await;
    // Its own connection: a dropped receiver takes messages until the broker has its cancellation.
    let unregistered = support::connect(support::options()).await.unwrap();
    let delivery = unregistered.receiver(&theirs.queue).unwrap().receive_within(SOON).await.unwrap();
    assert_eq!(delivery.message.subject(), None);
    delivery.complete().await.unwrap();
    unregistered.close().await.unwrap();

    let rabbit = support::connect(support::options()).await.unwrap();
    rabbit.register_subject_from_routing_key(&theirs.queue).unwrap();
    let mut receiver = rabbit.receiver(&theirs.queue).unwrap();
    let typed = BasicProperties::default().with_type("typed".into());
    publish(&theirs, &events, "order.placed", typed).await;
    publish(&theirs, "", &theirs.queue, BasicProperties::default()).await;
    publish(&theirs, &events, "order.placed", BasicProperties::default()).await;
    for subject in [Some("typed"), None] {
        let delivery = receiver.receive_within(SOON).await.unwrap();
        assert_eq!(delivery.message.subject(), subject);
        delivery.complete().await.unwrap();
    }
    // The copy has another routing key.
    for _ in 0..2 {
        let delivery = receiver.receive_within(SOON).await.unwrap();
        assert_eq!(delivery.message.subject(), Some("order.placed"));
        delivery.abandon().await.unwrap();
    }
    receiver.receive_within(SOON).await.unwrap().dead_letter(why()).await.unwrap();
    let dead = theirs.next_dead().await;
    assert_eq!(convert::from_delivery(&dead).unwrap().subject(), Some("order.placed"));
    rabbit.close().await.unwrap();
    delete(&theirs, &events).await;
    theirs.end().await;
}

/// The count of the first entry of the history.
fn count(message: &Message) -> Option<i64> {
    let (_, deaths) = message.pass_through()?.annotations.iter().find(|(name, _)| name == "x-death")?;
    let Value::List(deaths) = deaths else { panic!("{deaths:?}") };
    let Value::Map(death) = &deaths[0] else { panic!("{deaths:?}") };
    let (_, count) = death.iter().find(|(name, _)| *name == Value::from("count")).unwrap();
    let Value::Simple(PropertyValue::I64(count)) = count else { panic!("{count:?}") };
    Some(*count)
}

/// Rules: K-127.
/// A queue with a time to live returns each dead letter, and the program gives up after so many rounds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_queue_of_another_program_counts_its_rounds() {
    let Some(theirs) = Theirs::declare(&[]).await else { return };
    let retry = support::unique("retry");
    let mut arguments = FieldTable::default();
    arguments.insert("x-message-ttl".into(), AMQPValue::LongInt(50));
    arguments.insert("x-dead-letter-exchange".into(), text(""));
    arguments.insert("x-dead-letter-routing-key".into(), text(&theirs.queue));
    let options = QueueDeclareOptions::durable();
    theirs.channel.queue_declare(retry.as_str().into(), options, arguments).await.unwrap();
    let exchange = bind(&theirs, ExchangeKind::Fanout, &retry, "").await;
    let rabbit = support::connect(support::options()).await.unwrap();
    rabbit.register_dead_letter_exchange(&theirs.queue, &exchange, None).unwrap();
    theirs.publish(BasicProperties::default().with_timestamp(1_700_000_000_123), b"body").await;
    let mut receiver = rabbit.receiver(&theirs.queue).unwrap();
    for round in [None, Some(1), Some(2), Some(3)] {
        let delivery = receiver.receive_within(SOON).await.unwrap();
        assert_eq!(count(&delivery.message), round);
        // A failed delivery is a copy too.
        delivery.abandon().await.unwrap();
        let delivery = receiver.receive_within(SOON).await.unwrap();
        assert_eq!(count(&delivery.message), round);
        let created = delivery.message.pass_through().unwrap().creation_time.unwrap();
        assert_eq!(created.as_millis(), 1_700_000_000_123);
        delivery.dead_letter(why()).await.unwrap();
    }
    receiver.receive_within(SOON).await.unwrap().complete().await.unwrap();
    rabbit.close().await.unwrap();
    theirs.channel.queue_delete(retry.as_str().into(), QueueDeleteOptions::default()).await.unwrap();
    delete(&theirs, &exchange).await;
    theirs.end().await;
}

/// Rules: K-120.
/// The dead-letter exchange routes by the first routing key, which the counted copies do not have as their own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_example_keeps_headers_and_the_first_routing_key_in_its_copies() {
    let Some(theirs) = Theirs::declare(&[("x-queue-type", text("classic"))]).await else { return };
    let events = bind(&theirs, ExchangeKind::Topic, &theirs.queue, "order.*").await;
    let dead_letters = bind(&theirs, ExchangeKind::Topic, &theirs.dead, "order.#").await;
    let mut headers = FieldTable::default();
    headers.insert("stack".into(), AMQPValue::FieldArray(vec![AMQPValue::Void, AMQPValue::LongInt(7)].into()));
    headers.insert("latin".into(), AMQPValue::LongString(vec![0xe9].into()));
    let properties = BasicProperties::default().with_content_type("application/json".into());
    let options = BasicPublishOptions::default();
    let (properties, body) = (properties.with_headers(headers.clone()), br#"["ink",0]"#);
    let (exchange, key) = (events.as_str().into(), "order.placed".into());
    theirs.channel.basic_publish(exchange, key, options, body, properties).await.unwrap().await.unwrap();
    let dead = tokio::select! {
        ended = wrap_lapin::consume(&theirs.channel, &theirs.queue, &dead_letters) => panic!("{ended:?}"),
        dead = theirs.next_dead() => dead,
    };
    let message = convert::from_routed_delivery(&dead).unwrap();
    assert_eq!((dead.routing_key.as_str(), message.subject()), ("order.placed", Some("order.placed")));
    assert_eq!(message.dead_letter_reason(), Some("MaxDeliveryCountExceeded"));
    let kept = dead.properties.headers().as_ref().unwrap().inner();
    for (name, value) in &headers {
        assert_eq!(kept.get(name.as_str()), Some(value), "{name}");
    }
    for exchange in [&events, &dead_letters] {
        delete(&theirs, exchange).await;
    }
    theirs.end().await;
}

/// Rules: K-126.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_routing_key_of_a_delay_is_not_a_subject() {
    let Some(rabbit) = support::connect(support::options()).await else { return };
    let queue = support::unique("delayed");
    rabbit.create_queue(&queue, QueueSettings::default()).await.unwrap();
    rabbit.register_subject_from_routing_key(&queue).unwrap();
    let at = Timestamp::from_millis(SystemClock::default().now().utc.as_millis() + 100);
    let message = Message::builder().scheduled_enqueue_time(at).build("later").unwrap();
    rabbit.sender(&queue).unwrap().send(message).await.unwrap();
    let delivery = rabbit.receiver(&queue).unwrap().receive_within(SOON).await.unwrap();
    assert_eq!((delivery.message.subject(), delivery.message.payload()), (None, Some(&b"later"[..])));
    delivery.complete().await.unwrap();
    rabbit.delete(&queue).await.unwrap();
    rabbit.close().await.unwrap();
}

/// Rules: K-126.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_with_sessions_does_not_take_subjects_from_routing_keys() {
    let Some(rabbit) = support::connect(support::options()).await else { return };
    rabbit.register_subject_from_routing_key("in-sessions").unwrap();
    let refused = rabbit.session_acceptor("in-sessions").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidOperation, "{refused}");
    rabbit.close().await.unwrap();
}
