//! Programs around a plain lapin client, with queues and a dead-letter exchange of their own.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use consign::{
    message::PropertyValue,
    settlement::{DeadLetter, DeadLetterReason},
    transport::{ErrorKind, ReceiverExt},
};
use consign_rabbitmq::{
    RabbitMq, convert,
    lapin::{
        BasicProperties, Channel, Connection, ConnectionProperties, ExchangeKind,
        message::Delivery,
        options::{
            BasicGetOptions, BasicPublishOptions, ConfirmSelectOptions, ExchangeDeclareOptions, ExchangeDeleteOptions,
            QueueBindOptions, QueueDeclareOptions, QueueDeleteOptions,
        },
        types::{AMQPValue, FieldTable},
    },
};

use crate::{SOON, support};

#[path = "../../examples/wrap_lapin.rs"]
#[expect(dead_code, reason = "the test has a queue of its own, which `main` is given")]
pub(crate) mod wrap_lapin;

/// A queue of another program, and the exchange that takes its dead letters.
pub(crate) struct Theirs {
    pub(crate) connection: Connection,
    pub(crate) channel: Channel,
    pub(crate) queue: String,
    pub(crate) exchange: String,
    /// The queue behind the exchange.
    pub(crate) dead: String,
}

impl Theirs {
    /// `None` without a broker.
    pub(crate) async fn declare(arguments: &[(&str, AMQPValue)]) -> Option<Self> {
        Self::declare_as(["theirs", "dlx", "dead"].map(support::unique), arguments).await
    }

    /// The same with the names of the queue, the exchange and the queue behind that.
    async fn declare_as(names: [String; 3], arguments: &[(&str, AMQPValue)]) -> Option<Self> {
        support::connect(support::options()).await?.close().await.unwrap();
        let connection = Connection::connect(&support::address(), ConnectionProperties::default()).await.unwrap();
        let channel = connection.create_channel().await.unwrap();
        channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
        let [queue, exchange, dead] = names;
        let options = ExchangeDeclareOptions::default();
        channel
            .exchange_declare(exchange.as_str().into(), ExchangeKind::Fanout, options, FieldTable::default())
            .await
            .unwrap();
        let this = Self { connection, channel, queue, exchange, dead };
        this.queue(&this.dead, &[]).await;
        this.queue(&this.queue, arguments).await;
        let (queue, exchange) = (this.dead.as_str().into(), this.exchange.as_str().into());
        let options = QueueBindOptions::default();
        this.channel.queue_bind(queue, exchange, "".into(), options, FieldTable::default()).await.unwrap();
        Some(this)
    }

    /// A quorum queue, unless the arguments have another type.
    pub(crate) async fn queue(&self, name: &str, arguments: &[(&str, AMQPValue)]) {
        let mut all = FieldTable::default();
        all.insert("x-queue-type".into(), text("quorum"));
        for (name, value) in arguments {
            let value = match value {
                AMQPValue::LongString(text) if text.as_bytes() == b"DLX" => {
                    AMQPValue::LongString(self.exchange.as_str().into())
                }
                value => value.clone(),
            };
            all.insert((*name).into(), value);
        }
        self.channel.queue_declare(name.into(), QueueDeclareOptions::durable(), all).await.unwrap();
    }

    pub(crate) async fn publish(&self, properties: BasicProperties, body: &[u8]) {
        let (queue, options) = (self.queue.as_str().into(), BasicPublishOptions::default());
        self.channel.basic_publish("".into(), queue, options, body, properties).await.unwrap().await.unwrap();
    }

    /// Takes the next dead letter.
    pub(crate) async fn next_dead(&self) -> Delivery {
        let getting = async {
            loop {
                let options = BasicGetOptions { no_ack: true };
                if let Some(got) = self.channel.basic_get(self.dead.as_str().into(), options).await.unwrap() {
                    return got.delivery;
                }
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(SOON, getting).await.expect("a dead letter")
    }

    /// Returns how many messages are ready in a queue, or `None` if there is no such queue.
    pub(crate) async fn ready(&self, queue: &str) -> Option<u32> {
        let channel = self.connection.create_channel().await.unwrap();
        let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::durable() };
        let found = channel.queue_declare(queue.into(), options, FieldTable::default()).await;
        found.ok().map(|queue| queue.message_count())
    }

    pub(crate) async fn end(self) {
        for queue in [&self.queue, &self.dead] {
            self.channel.queue_delete(queue.as_str().into(), QueueDeleteOptions::default()).await.unwrap();
        }
        let options = ExchangeDeleteOptions::default();
        self.channel.exchange_delete(self.exchange.as_str().into(), options).await.unwrap();
        self.connection.close(200, "OK".into()).await.unwrap();
    }
}

pub(crate) fn text(text: &str) -> AMQPValue {
    AMQPValue::LongString(text.into())
}

/// The example loses nothing, bounds the deliveries, and moves dead letters through the exchange of the queue's owner.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_example_around_a_lapin_client_settles_each_message() {
    settles_each_message("quorum").await;
}

/// The default of `queue_declare`, which does not count deliveries.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_example_bounds_the_deliveries_of_a_classic_queue() {
    settles_each_message("classic").await;
}

async fn settles_each_message(kind: &str) {
    let arguments = [("x-dead-letter-exchange", text("DLX")), ("x-queue-type", text(kind))];
    let Some(theirs) = Theirs::declare(&arguments).await else { return };
    wrap_lapin::place(&theirs.channel, &theirs.queue, ("pen", 120)).await.unwrap();
    let mut headers = FieldTable::default();
    headers.insert("tenant".into(), text("acme"));
    headers.insert("stack".into(), AMQPValue::FieldArray(vec![AMQPValue::LongInt(7)].into()));
    let json = || BasicProperties::default().with_content_type("application/json".into());
    theirs.publish(json().with_headers(headers.clone()).with_expiration("60000".into()), b"{not json").await;
    wrap_lapin::place(&theirs.channel, &theirs.queue, ("ink", 0)).await.unwrap();

    let consuming = wrap_lapin::consume(&theirs.channel, &theirs.queue, &theirs.exchange);
    let mut seen = Vec::new();
    tokio::select! {
        ended = consuming => panic!("{ended:?}"),
        () = async { seen.extend([theirs.next_dead().await, theirs.next_dead().await]) } => {}
    }
    seen.sort_by_key(|delivery| delivery.data.len());
    let [malformed, failed] = seen.try_into().unwrap();
    let message = convert::from_delivery(&malformed).unwrap();
    assert_eq!(message.dead_letter_reason(), Some("DeserializationFailed"));
    assert_eq!(message.application_properties().get("tenant").and_then(PropertyValue::as_str), Some("acme"));
    // It would disappear from the dead-letter queue.
    assert_eq!(malformed.properties.expiration(), &None);
    let raw = malformed.properties.headers().as_ref().unwrap().inner();
    for (name, value) in &headers {
        assert_eq!(raw.get(name.as_str()), Some(value), "{name}");
    }
    assert!(raw.contains_key(DeadLetter::REASON) && raw.contains_key(DeadLetter::DESCRIPTION));
    let message = convert::from_delivery(&failed).unwrap();
    let (reason, why) = (message.dead_letter_reason(), message.dead_letter_description().unwrap());
    assert_eq!((reason, why.contains("20 delivery attempts")), (Some("MaxDeliveryCountExceeded"), true), "{why}");
    assert_eq!((failed.routing_key.as_str(), message.payload()), (theirs.queue.as_str(), Some(&br#"["ink",0]"#[..])));
    assert!(message.message_id().is_some());
    // The consumer is still there with its settled deliveries: nothing is ready, and the queue's deletion reports no rest.
    assert_eq!(theirs.ready(&theirs.queue).await, Some(0));
    theirs.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_example_ends_if_no_queue_takes_a_dead_letter() {
    // RabbitMQ 3.10 may close the connection that deletes a quorum queue of a consumer.
    let Some(theirs) = Theirs::declare(&[("x-queue-type", text("classic"))]).await else { return };
    theirs.publish(BasicProperties::default().with_content_type("application/json".into()), b"{not json").await;
    // This exchange has no binding for the queue's name.
    let consuming = wrap_lapin::consume(&theirs.channel, &theirs.queue, "amq.direct");
    let ended = tokio::time::timeout(SOON, consuming).await.expect("no endless redelivery").unwrap_err();
    assert!(ended.to_string().contains("no queue has taken the message"), "{ended}");
    theirs.end().await;
}

/// The properties of the message have space for no count.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_example_dead_letters_a_message_that_cannot_be_counted() {
    let Some(theirs) = Theirs::declare(&[("x-queue-type", text("classic"))]).await else { return };
    let mut headers = FieldTable::default();
    for name in ["a", "b"] {
        headers.insert(name.into(), text(&"x".repeat(32_750)));
    }
    let json = BasicProperties::default().with_content_type("application/json".into());
    theirs.publish(json.with_headers(headers), br#"["ink",0]"#).await;
    let dead = tokio::select! {
        ended = wrap_lapin::consume(&theirs.channel, &theirs.queue, &theirs.exchange) => panic!("{ended:?}"),
        dead = theirs.next_dead() => dead,
    };
    let headers = dead.properties.headers().as_ref().unwrap().inner();
    assert_eq!(headers.get(DeadLetter::REASON), Some(&text("HeaderSizeExceeded")));
    assert!(headers.contains_key("a") && headers.contains_key("b"));
    theirs.end().await;
}

fn why() -> DeadLetter {
    DeadLetter::new(DeadLetterReason::HandlerPermanent, "why")
}

async fn published(theirs: &Theirs) {
    theirs.publish(BasicProperties::default().with_type("order".into()), b"body").await;
}

async fn assert_dead(theirs: &Theirs, routing_key: &str) {
    let dead = theirs.next_dead().await;
    let message = convert::from_delivery(&dead).unwrap();
    assert_eq!((message.dead_letter_reason(), message.subject()), (Some("HandlerPermanent"), Some("order")));
    assert_eq!((dead.routing_key.as_str(), message.payload()), (routing_key, Some(&b"body"[..])));
    assert_eq!(theirs.ready(&theirs.queue).await, Some(0));
    assert_eq!(theirs.ready(&format!("{}/$deadletterqueue", theirs.queue)).await, None);
}

/// Rules: K-121.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_letters_of_a_queue_of_another_program_go_to_its_exchange() {
    let exchange = ("x-dead-letter-exchange", text("DLX"));
    let others: [&[_]; 2] = [
        &[],
        &[
            ("x-dead-letter-routing-key", text("dead")),
            ("x-max-length", AMQPValue::LongInt(1_000)),
            ("x-message-ttl", AMQPValue::LongInt(600_000)),
            ("x-expires", AMQPValue::LongInt(600_000)),
        ],
    ];
    for others in others {
        let arguments: Vec<_> = others.iter().cloned().chain([exchange.clone()]).collect();
        let Some(theirs) = Theirs::declare(&arguments).await else { return };
        let rabbit = support::connect(support::options()).await.unwrap();
        let key = if others.is_empty() { theirs.queue.clone() } else { "dead".to_owned() };
        // The second one needs no question.
        for _ in 0..2 {
            published(&theirs).await;
            let delivery = rabbit.receiver(&theirs.queue).unwrap().receive_within(SOON).await.unwrap();
            delivery.dead_letter(why()).await.unwrap();
            assert_dead(&theirs, &key).await;
        }
        rabbit.close().await.unwrap();
        theirs.end().await;
    }
}

/// Rules: K-121.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_an_exchange_a_dead_letter_is_refused_and_nothing_is_created() {
    let Some(theirs) = Theirs::declare(&[]).await else { return };
    let connected = support::connect(support::options()).await.unwrap();
    let wrapped = RabbitMq::wrap(theirs.channel.clone());
    for rabbit in [&connected, &wrapped] {
        published(&theirs).await;
        let mut receiver = rabbit.receiver(&theirs.queue).unwrap();
        let refused = receiver.receive_within(SOON).await.unwrap().dead_letter(why()).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidOperation);
        assert!(refused.to_string().contains("RabbitMq::register_dead_letter_exchange"), "{refused}");
        assert_eq!(theirs.ready(&format!("{}/$deadletterqueue", theirs.queue)).await, None);

        // It is redelivered, and goes where the program says.
        rabbit.register_dead_letter_exchange(&theirs.queue, &theirs.exchange, Some("registered")).unwrap();
        receiver.receive_within(SOON).await.unwrap().dead_letter(why()).await.unwrap();
        drop(receiver);
        assert_dead(&theirs, "registered").await;
    }
    let long = connected.register_dead_letter_exchange(&theirs.queue, &"x".repeat(256), None);
    assert_eq!(long.unwrap_err().kind(), ErrorKind::InvalidArgument);
    connected.close().await.unwrap();
    theirs.end().await;
}

/// Rules: K-121.
/// With the long exchange its name is missing in the answer, with the shorter one the routing key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_is_cut_is_named_and_no_exchange_is_guessed() {
    for (length, argument) in [(120, "x-dead-letter-exchange"), (40, "x-dead-letter-routing-key")] {
        let long = |name: &str| format!("{:-<length$}", support::unique(name));
        let names = [long("theirs"), support::unique("dlx"), support::unique("dead")];
        let arguments =
            [("x-dead-letter-exchange", text("DLX")), ("x-dead-letter-routing-key", text(&"k".repeat(120)))];
        let Some(theirs) = Theirs::declare_as(names, &arguments).await else { return };
        let rabbit = support::connect(support::options()).await.unwrap();
        published(&theirs).await;
        let mut receiver = rabbit.receiver(&theirs.queue).unwrap();
        let refused = receiver.receive_within(SOON).await.unwrap().dead_letter(why()).await.expect_err(argument);
        assert_eq!(refused.kind(), ErrorKind::InvalidOperation);
        let said = refused.to_string();
        assert!(said.contains(&format!("the answer of RabbitMQ was cut before `{argument}`")), "{said}");
        assert!(said.contains("Call RabbitMq::register_dead_letter_exchange"), "{said}");

        rabbit.register_dead_letter_exchange(&theirs.queue, &theirs.exchange, Some("registered")).unwrap();
        receiver.receive_within(SOON).await.unwrap().dead_letter(why()).await.unwrap();
        drop(receiver);
        assert_dead(&theirs, "registered").await;
        rabbit.close().await.unwrap();
        theirs.end().await;
    }
}

/// The page of wrapped clients has excerpts of the example.
#[test]
fn every_excerpt_of_the_page_is_in_the_example() {
    let (page, source) =
        (include_str!("../../../../docs/wrapping-a-client.md"), include_str!("../../examples/wrap_lapin.rs"));
    let excerpts: Vec<&str> = page
        .split("```rust,ignore\n// transports/rabbitmq/examples/wrap_lapin.rs\n")
        .skip(1)
        .filter_map(|rest| rest.split("\n```").next())
        .collect();
    assert_eq!(excerpts.len(), 3);
    for excerpt in excerpts {
        assert!(source.contains(excerpt), "the example no longer has\n{excerpt}");
    }
    let is_code = |line: &&str| !line.trim().is_empty() && !line.trim().starts_with("//");
    assert_eq!(source.lines().filter(is_code).count(), 70, "the page has this number");
}
