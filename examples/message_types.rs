//! One queue, five types of messages, three generations of producers: the newest one sends by the enum, older ones send by hand
//! what they always did. What the consumer does not know yet is dead-lettered, and rescued when it does.
//!
//! `cargo run --example message_types --features msgpack,derive`

use std::sync::{Arc, Mutex};

use consign::{
    Message,
    administration::QueueSettings,
    broker::{Broker, Queue},
    codecs::{CodecSet, Codecs, Json, MessagePack},
    consumer::{Consumer, Settings},
    dead_letters::{DeadLetterFilter, DeadLetters},
    message::SequenceNumber,
    message_types::MessageTypes,
    middleware::{
        encode::{EncodeLayer, OutboundMessage},
        message_id::MessageIdLayer,
    },
    pipeline::Pipeline,
    routing::{Router, State},
    settlement::Transient,
    transport::{SendExt, SendService, Sender},
};
use serde::{Deserialize, Serialize};
use tower::BoxError;

/// What is in the queue.
#[derive(Debug, MessageTypes)]
enum Event {
    /// In its third version. The first producers called it otherwise.
    #[message("order.created", alias = "OrderCreated", version = 3, from(1 = CreatedV1, 2 = CreatedV2))]
    Created(Created),
    #[message("order.paid")]
    Paid(Paid),
    /// There are many of these, and they are small.
    #[message("order.shipped", codec = "msgpack")]
    Shipped(Shipped),
    #[message("stock.counted")]
    Counted(Vec<u32>),
    #[message("shop.closed")]
    Closed,
}

/// A total without a currency.
#[derive(Debug, Serialize, Deserialize)]
struct CreatedV1 {
    id: u64,
    total: f64,
}

/// In cents, of a currency.
#[derive(Debug, Serialize, Deserialize)]
struct CreatedV2 {
    id: u64,
    cents: i64,
    currency: String,
}

/// With its lines.
#[derive(Debug, Serialize, Deserialize)]
struct Created {
    id: u64,
    currency: String,
    lines: Vec<i64>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Paid {
    id: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Shipped {
    id: u64,
}

/// A step that may refuse: then the message is a dead letter, which says so.
impl TryFrom<CreatedV1> for CreatedV2 {
    type Error = &'static str;

    #[expect(clippy::cast_possible_truncation, reason = "it was looked at")]
    fn try_from(old: CreatedV1) -> Result<Self, Self::Error> {
        let cents = (old.total * 100.0).round();
        if !cents.is_finite() || cents.abs() > 1e12 {
            return Err("the total is no amount of money");
        }
        Ok(Self { id: old.id, cents: cents as i64, currency: "EUR".into() })
    }
}

impl From<CreatedV2> for Created {
    fn from(old: CreatedV2) -> Self {
        Self { id: old.id, currency: old.currency, lines: vec![old.cents] }
    }
}

/// The consumer before the second release: it knows two types, and one version.
#[derive(Debug, MessageTypes)]
#[message(receive)]
enum Before {
    #[message("order.created", version = 3)]
    Created(Created),
    #[message("order.paid")]
    Paid(Paid),
}

type Log = Arc<Mutex<Vec<String>>>;

async fn before(event: Before, State(log): State<Log>) -> Result<(), Transient> {
    match event {
        Before::Created(created) => note(&log, format!("{created:?}")),
        Before::Paid(paid) => note(&log, format!("{paid:?}")),
    }
}

async fn handle(event: Event, State(log): State<Log>) -> Result<(), Transient> {
    note(&log, format!("{event:?}"))
}

fn note(log: &Log, line: String) -> Result<(), Transient> {
    println!("handled: {line}");
    log.lock().map_err(|_| "the log is broken")?.push(line);
    Ok(())
}

fn codecs() -> Result<Codecs<impl CodecSet>, BoxError> {
    Ok(Codecs::builder().with(Json::default()).with(MessagePack).build()?)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let broker = Broker::new();
    let queue = broker.create_queue("orders", QueueSettings::default())?;
    let log = Log::default();

    send(&queue).await?;
    println!("\n# The first release knows two types");
    let router = Router::with_state(codecs()?, Arc::clone(&log)).types(before).build()?;
    let consumer = Consumer::new(queue.receiver(), router);
    consumer.run_until(idle(&queue)).await?;
    for letter in
        DeadLetters::new(queue.dead_letter()).list(&DeadLetterFilter::all(), SequenceNumber::default(), 100).await?
    {
        println!("dead: {:?}: {}", letter.message().subject(), letter.description().unwrap_or("without a description"));
    }

    println!("\n# The second one knows all");
    let settings = Settings::new().concurrency(4);
    let pipeline = Pipeline::receiving("orders")
        .consumer(&settings)
        .router(Router::with_state(codecs()?, Arc::clone(&log)).types(handle).build()?)?;
    println!("{}\n", pipeline.describe());
    let dead = DeadLetters::new(queue.dead_letter());
    let unknown = DeadLetterFilter::all().reason("UnknownMessageType");
    println!("{}", dead.resubmit(unknown, queue.sender()?).run().await?);
    let consumer = Consumer::configured(queue.receiver(), pipeline.into_service(), &settings)?;
    let health = consumer.health();
    consumer.run_until(idle(&queue)).await?;
    println!("\nconsumer: {}", health.snapshot());
    println!("{}", broker.snapshot());

    assert_eq!(log.lock().map_err(|_| "the log is broken")?.len(), 7);
    // What a step refuses stays a dead letter.
    assert_eq!(queue.counts().dead_lettered, 1);
    Ok(())
}

/// All generations of producers.
async fn send(queue: &Queue) -> Result<(), BoxError> {
    let old = queue.sender()?;
    let by_hand = |subject, body| Message::builder().content_type("application/json").subject(subject).build(body);
    // The first one, which knew of no versions.
    old.send(by_hand("OrderCreated", r#"{"id":1,"total":2.5}"#)?).await?;
    old.send(by_hand("OrderCreated", r#"{"id":2,"total":1e300}"#)?).await?;
    // The second one.
    let mut second = by_hand("order.created", r#"{"id":3,"cents":70,"currency":"CHF"}"#)?;
    second.properties_mut().application_properties_mut().insert("x-message-version", 2);
    old.send(second).await?;
    // The newest, by the enum.
    let mut sender = Pipeline::sending("to orders")
        .sends::<Event>()
        .layer(MessageIdLayer::new())
        .layer(EncodeLayer::new(codecs()?))
        .service(SendService::new(queue.sender()?))?
        .into_service();
    for event in [
        Event::Created(Created { id: 4, currency: "EUR".into(), lines: vec![100, 250] }),
        Event::Paid(Paid { id: 4 }),
        Event::Shipped(Shipped { id: 4 }),
        Event::Counted(vec![3, 0, 12]),
        Event::Closed,
    ] {
        sender.send(OutboundMessage::typed(event)).await?;
    }
    Ok(())
}

/// Until nothing is left to receive.
async fn idle(queue: &Queue) {
    while queue.counts().active + queue.counts().locked > 0 {
        tokio::task::yield_now().await;
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn all_generations_of_producers_are_handled() {
        super::main().unwrap();
    }
}
