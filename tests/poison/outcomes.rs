//! What is no decoding error, what panics, and what cannot be dead-lettered.

use std::{
    error::Error,
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use bytes::BytesMut;
use consign::{
    Disposition, Message, MessageExt,
    administration::QueueSettings,
    broker::{Broker, Queue},
    codecs::{Codec, CodecSet, Codecs, DecodeContext, DecodeError, EncodeError, Format, Json, MediaType},
    consumer::Consumer,
    message::{SequenceNumber, limits},
    routing::{Body, Payload, Router, State},
    settlement::{DeadLetterReason, Permanent, Transient, Undecodable},
    time::{ManualClock, Timestamp},
    transport::ReceiverExt,
};
use serde::{Deserialize, Serialize};
use tower::{BoxError, ServiceBuilder, service_fn, timeout::TimeoutLayer};

use crate::{
    attacks::{JSON_SYNTAX, JSON_WRONG_TYPE},
    handlers::Endpoint,
    support::{
        consume, dead_letters, description, empty, good, handled, ids, property, queue, reason, send, sent_properties,
        trail,
    },
};

type Calls = Arc<AtomicU32>;

fn queue_of_three_deliveries() -> Queue {
    Broker::new().create_queue("orders", QueueSettings::default().max_delivery_count(3)).unwrap()
}

fn poison() -> Message {
    Message::builder().content_type("application/json").subject("order").build(JSON_WRONG_TYPE).unwrap()
}

async fn passing(State(calls): State<Calls>, Body(_): Body<serde_json::Value>) -> Result<(), Transient> {
    calls.fetch_add(1, Ordering::Relaxed);
    Err(io::Error::other("the database is away"))?
}

async fn boxed(State(calls): State<Calls>) -> Result<(), Box<dyn Error + Send + Sync>> {
    calls.fetch_add(1, Ordering::Relaxed);
    Err("the database is away")?
}

/// A failure to decode something else is the handler's own.
async fn nested(State(calls): State<Calls>) -> Result<(), Transient> {
    calls.fetch_add(1, Ordering::Relaxed);
    serde_json::from_str::<u64>("the answer of the database")?;
    Ok(())
}

/// Rules: P-49.
#[tokio::test(start_paused = true)]
async fn an_error_of_the_handler_abandons() {
    for subject in ["passing", "boxed", "nested"] {
        let (queue, calls) = (queue_of_three_deliveries(), Calls::default());
        let message =
            Message::builder().content_type("application/json").subject(subject).message_id("1").build("{}").unwrap();
        send(&queue, [message.clone()]).await;
        let router = Router::with_state(Codecs::json(), Arc::clone(&calls))
            .route("passing", passing)
            .route("boxed", boxed)
            .route("nested", nested)
            .build()
            .unwrap();
        let stats = consume(&queue, router).await;
        assert_eq!(calls.load(Ordering::Relaxed), 3, "{subject}");
        assert_eq!((stats.abandoned(), stats.dead_lettered()), (2, 1), "{subject}");
        let dead = dead_letters(&queue).await;
        assert_eq!(reason(&dead[0]), "MaxDeliveryCountExceeded", "{subject}");
        assert_eq!(trail(&dead[0]), None, "{subject}");
        assert_eq!(dead[0].received().map(|received| received.delivery_count), Some(3), "{subject}");
        assert_eq!((dead[0].body(), &sent_properties(&dead[0])), (message.body(), message.properties()), "{subject}");
    }
}

/// A handler that decodes for itself, and returns what went wrong as an error of its own kind.
async fn decode_for_itself<E: From<Undecodable>, C: CodecSet>(payload: Payload<C>) -> Result<(), E> {
    let _: u64 = payload.decode()?;
    Ok(())
}

/// Rules: P-43.
#[tokio::test(start_paused = true)]
async fn a_body_that_the_handler_cannot_decode_is_no_transient_failure() {
    let queue = queue();
    let message = |subject| Message::builder().subject(subject).build(JSON_SYNTAX).unwrap();
    send(&queue, ["undecodable", "transient", "permanent", "boxed"].map(message)).await;
    let router = Router::new(Codecs::json())
        .route("undecodable", decode_for_itself::<Undecodable, _>)
        .route("transient", decode_for_itself::<Transient, _>)
        .route("permanent", decode_for_itself::<Permanent, _>)
        .route("boxed", decode_for_itself::<Box<dyn Error + Send + Sync>, _>)
        .build()
        .unwrap();
    let stats = consume(&queue, router).await;
    assert_eq!((stats.handled(), stats.dead_lettered()), (4, 4));
    for dead in dead_letters(&queue).await {
        assert_eq!((reason(&dead), trail(&dead)), ("DeserializationFailed", Some("json;default;Type;1:1;;u64;map")));
    }
}

/// Rules: P-43.
/// The same without a router, and through a layer that boxes errors.
#[tokio::test(start_paused = true)]
async fn a_stack_that_answers_with_an_undecodable_body_dead_letters_it() {
    let queue = queue();
    send(&queue, [Message::new(JSON_SYNTAX), Message::new("7"), Message::new("8")]).await;
    let decode = service_fn(async |message: Message| {
        let number: u64 = message.decode(&Codecs::json())?;
        if number == 8 { Err("the database is away".into()) } else { Ok::<_, BoxError>(Disposition::Complete) }
    });
    let stack = ServiceBuilder::new().layer(TimeoutLayer::new(Duration::from_secs(1))).service(decode);
    let stats = Consumer::new(queue.receiver(), stack).run_until(empty(&queue)).await.unwrap();
    assert_eq!((stats.completed(), stats.dead_lettered(), stats.abandoned(), stats.failed()), (1, 2, 9, 11));
    let dead = dead_letters(&queue).await;
    let found: Vec<_> = dead.iter().map(|dead| (reason(dead), trail(dead))).collect();
    let trail = Some("json;default;Type;1:1;;u64;map");
    assert_eq!(found, [("DeserializationFailed", trail), ("MaxDeliveryCountExceeded", None)]);
}

/// Rules: P-43.
#[tokio::test(start_paused = true)]
async fn a_hundred_poisons_cost_a_hundred_deliveries() {
    let (queue, handled) = (queue(), handled());
    send(&queue, (0..100).flat_map(|id| [poison(), good(id)])).await;
    let stats = consume(&queue, Endpoint::Chained.stack(&handled)).await;
    assert_eq!((stats.handled(), stats.dead_lettered(), stats.completed()), (200, 100, 100));
    assert_eq!(ids(&handled), (0..100).collect::<Vec<_>>());
    assert_eq!(dead_letters(&queue).await.len(), 100);
}

/// A codec that panics on every body, and reads `+brittle` too.
#[derive(Debug)]
struct Brittle;

impl Codec for Brittle {
    fn name(&self) -> &'static str {
        "brittle"
    }

    fn media_types(&self) -> &'static [MediaType] {
        &[const { MediaType::exact("application/x-brittle") }]
    }

    fn format(&self) -> Format {
        Format::SelfDescribing
    }

    fn decode<'de, T: Deserialize<'de>>(&self, body: &'de [u8], _: &DecodeContext<'_>) -> Result<T, DecodeError> {
        panic!("on purpose, at {} bytes", body.len())
    }

    fn encode<T: Serialize + ?Sized>(&self, _: &T, _: &mut BytesMut) -> Result<(), EncodeError> {
        panic!("on purpose")
    }
}

/// Rules: P-45.
#[tokio::test(start_paused = true)]
async fn a_codec_that_panics_has_failed() {
    let message = |body: &'static [u8]| {
        Message::builder().content_type("application/x-brittle").subject("order").build(body).unwrap()
    };
    let (queue, seen) = (queue(), Arc::<Mutex<Vec<u64>>>::default());
    send(&queue, [message(b"[7]"), message(JSON_SYNTAX), message(b"[8]")]).await;
    let codecs = Codecs::builder().with(Json::default()).with(Brittle).fallback(["json"]).build().unwrap();
    let router = Router::with_state(codecs, Arc::clone(&seen))
        .fallback(|State(seen): State<Arc<Mutex<Vec<u64>>>>, Body(numbers): Body<Vec<u64>>| async move {
            seen.lock().unwrap().extend(numbers);
        })
        .build()
        .unwrap();
    let stats = consume(&queue, router).await;
    assert_eq!(*seen.lock().unwrap(), [7, 8]);
    assert_eq!((stats.panicked(), stats.completed(), stats.dead_lettered()), (0, 2, 1));
    let dead = dead_letters(&queue).await;
    assert_eq!(trail(&dead[0]), Some("brittle;exact;Panic;,json;fallback;Type;1:1;;a sequence;map"));
    assert_eq!(reason(&dead[0]), "DeserializationFailed");
    assert!(!description(&dead[0]).contains("on purpose"));
}

/// Rules: P-46.
#[tokio::test(start_paused = true)]
async fn a_message_of_receive_and_delete_is_dispatched() {
    let queue = queue();
    send(&queue, [poison(), good(7)]).await;
    let (handled, lost) = (handled(), Arc::new(Mutex::new(Vec::new())));
    let sink = Arc::clone(&lost);
    let stats = Consumer::new(queue.receive_and_delete(), Endpoint::Alone.stack(&handled))
        .on_undeliverable(move |undeliverable| sink.lock().unwrap().push(undeliverable))
        .run_until(empty(&queue))
        .await
        .unwrap();
    assert_eq!((stats.undeliverable(), stats.dead_lettered(), stats.completed()), (1, 0, 1));
    assert_eq!(ids(&handled), [7]);
    let lost = lost.lock().unwrap();
    assert_eq!(lost[0].message.payload(), Some(JSON_WRONG_TYPE));
    let dead_letter = lost[0].dead_letter.as_ref().unwrap();
    assert_eq!(dead_letter.reason, DeadLetterReason::DeserializationFailed);
    let trail = dead_letter.changes.properties().and_then(|changes| changes.get("x-decode-trail")).unwrap();
    assert_eq!(trail.as_str(), Some("json;exact;Type;1:19;id;u64;text"));
    assert_eq!(queue.counts().dead_lettered, 0);
}

/// Rules: P-47.
#[tokio::test(start_paused = true)]
async fn a_dead_letter_is_not_dead_lettered_again() {
    let (queue, handled) = (queue(), handled());
    send(&queue, [poison()]).await;
    consume(&queue, Endpoint::Alone.stack(&handled)).await;
    let first = dead_letters(&queue).await.remove(0);

    let undeliverable = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&undeliverable);
    let dead = queue.dead_letter();
    let stats = Consumer::new(dead.receiver(), Endpoint::Chained.stack(&handled))
        .on_undeliverable(move |undeliverable| sink.lock().unwrap().push(undeliverable))
        .run_until(empty(&dead))
        .await
        .unwrap();
    assert_eq!((stats.undeliverable(), stats.dead_lettered(), stats.deferred()), (1, 0, 1));
    assert_eq!(undeliverable.lock().unwrap()[0].message.payload(), Some(JSON_WRONG_TYPE));

    let peeked = dead.peek(SequenceNumber::new(0), 10);
    assert_eq!(peeked[0].properties(), first.properties(), "the record of the first refusal stays");
    let error = peeked[0].decode::<u64, _>(&Codecs::json()).unwrap_err();
    assert_eq!(error.reason(), DeadLetterReason::DeserializationFailed);
    assert_eq!(peeked[0].payload(), Some(JSON_WRONG_TYPE));
}

/// A codec during which, the first time, the lock runs out.
struct Slow(Arc<ManualClock>, AtomicU32);

impl Codec for Slow {
    fn name(&self) -> &'static str {
        "slow"
    }

    fn media_types(&self) -> &'static [MediaType] {
        &[const { MediaType::exact("application/x-slow") }]
    }

    fn format(&self) -> Format {
        Format::SelfDescribing
    }

    fn decode<'de, T: Deserialize<'de>>(&self, body: &'de [u8], cx: &DecodeContext<'_>) -> Result<T, DecodeError> {
        if self.1.fetch_add(1, Ordering::Relaxed) == 0 {
            self.0.advance(Duration::from_secs(61));
        }
        Json::default().decode(body, cx)
    }

    fn encode<T: Serialize + ?Sized>(&self, value: &T, out: &mut BytesMut) -> Result<(), EncodeError> {
        Json::default().encode(value, out)
    }
}

/// Rules: P-48.
#[tokio::test(start_paused = true)]
async fn a_lock_that_is_lost_while_decoding_dead_letters_nothing() {
    let clock = Arc::new(ManualClock::new(Timestamp::EPOCH));
    let queue = Broker::with_clock(Arc::clone(&clock)).create_queue("orders", QueueSettings::default()).unwrap();
    send(&queue, [Message::new(JSON_SYNTAX)]).await;
    let codecs = Codecs::builder().with(Slow(clock, AtomicU32::new(0))).build().unwrap();
    let router = Router::new(codecs).fallback(|_: Body<u64>| async {}).build().unwrap();
    let stats = consume(&queue, router).await;
    assert_eq!((stats.lock_lost(), stats.dead_lettered(), stats.settle_failed()), (1, 1, 0));
    let dead = dead_letters(&queue).await;
    assert_eq!(dead[0].received().map(|received| received.delivery_count), Some(2));
}

/// Rules: P-44.
/// A handler that has too much to say, about a message that has said much already.
#[tokio::test(start_paused = true)]
async fn a_dead_letter_fits_what_a_broker_takes() {
    let mut builder = Message::builder().message_id("1").subject("refused");
    for number in 0..300 {
        builder = builder.property(format!("key {number:03}"), "語".repeat(60));
    }
    let message = builder.build("{}").unwrap();
    let queue = queue();
    send(&queue, [message.clone()]).await;
    let router = Router::new(Codecs::json())
        .route("refused", || async { Err::<(), _>(Permanent::new("é".repeat(1 << 20))) })
        .build()
        .unwrap();
    let stats = consume(&queue, router).await;
    assert_eq!((stats.handled(), stats.dead_lettered(), stats.settle_failed()), (1, 1, 0));
    let dead = dead_letters(&queue).await.remove(0);
    assert_eq!(reason(&dead), "HandlerPermanent");
    let description = description(&dead);
    assert!(description.ends_with('…') && description.starts_with("éé"), "{}", description.len());
    assert!(dead.properties().size() <= limits::ALL_PROPERTIES_BYTES);
    assert!(&sent_properties(&dead) == message.properties());
}

/// Rules: P-44.
/// A dead letter that a driver of the user's own settles, without a consumer.
#[tokio::test(start_paused = true)]
async fn a_delivery_is_dead_lettered_by_hand() {
    use consign::settlement::IntoDisposition;

    let queue = queue();
    send(&queue, [poison()]).await;
    let delivery = queue.receiver().receive().await.unwrap();
    let error = delivery.message.decode::<u64, _>(&Codecs::json()).unwrap_err();
    delivery.settle(error.into_disposition()).await.unwrap();
    let dead = dead_letters(&queue).await;
    assert_eq!(trail(&dead[0]), Some("json;exact;Type;1:1;;u64;map"));
    assert_eq!(property(&dead[0], "DeadLetterReason"), Some("DeserializationFailed"));
}
