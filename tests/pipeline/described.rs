use std::time::Duration;

use consign::{
    Disposition, Message,
    administration::QueueSettings,
    broker::Broker,
    codecs::Codecs,
    consumer::{Consumer, Settings},
    middleware::{
        catch_panic::CatchPanicLayer,
        dead_letter::DeadLetterLayer,
        dedup::{DedupLayer, MemoryStore},
        encode::{EncodeLayer, OutboundMessage},
        expiry::ExpiryLayer,
        in_flight::InFlightLayer,
        message_id::MessageIdLayer,
        retry::{Backoff, DelayPolicy, RetryLayer},
        size_limit::SizeLimitLayer,
    },
    pipeline::{Describe, LayerInfo, Pipeline, Side},
    routing::{Ignore, Router},
    time::SystemClock,
    transport::{SendExt, SendService},
};
use serde_json::json;
use tower::{BoxError, ServiceExt, layer::util::Identity, service_fn, timeout::TimeoutLayer};

use crate::{Event, codecs};

fn settings() -> Settings {
    Settings::new().concurrency(8).prefetch(4).lock(Duration::from_secs(60)).drain_timeout(Duration::from_millis(1_500))
}

/// Rules: J-41.
#[tokio::test]
async fn a_receiving_pipeline_says_what_it_is_made_of() {
    let router =
        Router::new(codecs()).types(async |_: Event| {}).route("raw", Ignore).fallback(Ignore).build().unwrap();
    let pipeline = Pipeline::receiving("orders")
        .consumer(&settings())
        .layer(DeadLetterLayer::new())
        .layer(CatchPanicLayer::new())
        .layer(ExpiryLayer::new(SystemClock::new()))
        .layer(RetryLayer::new().immediate(2))
        .layer(DedupLayer::new(MemoryStore::new(Duration::from_secs(600)), "orders"))
        .other("timeout", TimeoutLayer::new(Duration::from_secs(5)))
        .router(router)
        .unwrap();
    assert_eq!(
        pipeline.describe().to_string(),
        "\
orders, receiving
consumer: 8 at once, prefetch 4, locks of 60s, renewed for 300s, drains for 1.5s, operations within 60s
layers, outer to inner
  1 dead_letter
  2 catch_panic
  3 expiry
  4 retry: immediate 2
  5 dedup: scope orders
  6 timeout
routes
  subject \"raw\"
  Event by Subject
    order.created, also OrderCreated, versions 1 to 2 in x-message-version
    order.shipped, written as msgpack
  others: a handler
codecs
  json: self-describing, writes application/json, reads application/json, text/json, application/x-json, \
text/x-json, */*+json
  msgpack: self-describing, writes application/msgpack, reads application/msgpack, application/x-msgpack, \
application/messagepack, application/x-messagepack, application/vnd.msgpack, */*+msgpack
ContentType
  missing: json (default), then msgpack (fallback)
  unknown: json (fallback), then msgpack (fallback)
  malformed: json (fallback), then msgpack (fallback)
  failed: json (fallback), then msgpack (fallback)
  not allowed: json (fallback), then msgpack (fallback)
chain: json, msgpack
allowed: every type
limits: 262144 bytes, depth 64, 65536 elements"
    );

    // And it is the stack that it says.
    let message = Message::builder().message_id("1").subject("order.created").build("7").unwrap();
    assert_eq!(pipeline.into_service().oneshot(message).await.unwrap(), Disposition::Complete);
}

/// Rules: Y-213.
#[test]
fn a_description_has_the_delayed_retries() {
    let queue = Broker::new().create_queue("orders", QueueSettings::default()).unwrap();
    let handler = || service_fn(async |_: Message| Ok::<_, BoxError>(Disposition::Complete));
    for (backoff, line) in [
        (
            Backoff::exponential(Duration::from_secs(10)),
            "1 retry: immediate 2, delayed 10s x 2 up to 3600s, jitter equal, deliveries 5, max age 7200s, by scheduled copies",
        ),
        (
            Backoff::fixed(Duration::from_millis(1_500)),
            "1 retry: immediate 2, delayed 1.5s, deliveries 5, max age 7200s, by scheduled copies",
        ),
    ] {
        let later = DelayPolicy::new(queue.sender().unwrap(), backoff).unwrap();
        let later = later.deliveries(5).max_age(Duration::from_secs(7_200));
        let layer = RetryLayer::new().immediate(2).delayed(later);
        let pipeline = Pipeline::receiving("orders").layer(layer).service(handler()).unwrap();
        let text = pipeline.describe().to_string();
        assert_eq!(text.lines().last().unwrap().trim(), line);
    }
}

/// Rules: J-41.
#[tokio::test]
async fn a_sending_pipeline_says_what_it_is_made_of() {
    let queue = Broker::new().create_queue("orders", QueueSettings::default()).unwrap();
    let pipeline = Pipeline::sending("to orders")
        .sends::<Event>()
        .layer(MessageIdLayer::new())
        .layer(EncodeLayer::new(codecs()).codec("msgpack").unwrap())
        .layer(SizeLimitLayer::new(1_000))
        .layer(InFlightLayer::new(100))
        .service(SendService::new(queue.sender().unwrap()))
        .unwrap();
    let text = pipeline.describe().to_string();
    let head = "\
to orders, sending
layers, outer to inner
  1 message_id
  2 encode: codec msgpack
  3 size_limit: bytes 1000
  4 in_flight: limit 100
sends Event by Subject
  order.created, also OrderCreated, versions 1 to 2 in x-message-version
  order.shipped, written as msgpack
codecs
  json: self-describing";
    assert!(text.starts_with(head), "{text}");
    pipeline.into_service().send(OutboundMessage::typed(Event::Shipped(7))).await.unwrap();
    assert_eq!(queue.counts().active, 1);
}

/// Rules: J-42.
#[test]
fn a_description_is_data_too() {
    let router = Router::new(Codecs::json()).types(async |_: Event| {}).route("raw", Ignore);
    let error = router.build().unwrap_err();
    assert_eq!(error.to_string(), "`order.shipped` is written by `msgpack`, which is not a codec of the set: add it");

    let router = Router::new(codecs()).types(async |_: Event| {}).route("raw", Ignore).build().unwrap();
    let pipeline = Pipeline::receiving("orders").consumer(&settings()).layer(RetryLayer::new()).router(router).unwrap();
    let data = serde_json::to_value(pipeline.describe()).unwrap();
    assert_eq!(data["side"], "receiving");
    assert_eq!(data["layers"], json!([{ "name": "retry", "settings": [{ "name": "immediate", "value": "0" }] }]));
    assert_eq!(data["consumer"]["lock_ms"], 60_000);
    assert_eq!(data["router"]["types"][0]["types"][0]["aliases"], json!(["OrderCreated"]));
    assert_eq!(data["router"]["codecs"]["chain"], json!(["json", "msgpack"]));
    assert_eq!(data["router"]["has_otherwise"], json!(false));
}

/// A layer of somebody else.
struct Seal;

impl Describe for Seal {
    fn info(&self) -> LayerInfo {
        LayerInfo::new("seal").only(Side::Sending).inside_of("compress", "sealed bytes are not made smaller").once()
    }
}

impl<S> tower::Layer<S> for Seal {
    type Service = S;

    fn layer(&self, inner: S) -> S {
        inner
    }
}

/// Rules: J-43.
#[test]
fn a_foreign_layer_has_its_name_and_its_place() {
    let service = || service_fn(async |_: Message| Ok::<_, BoxError>(()));
    let good = Pipeline::sending("q").other("compress", Identity::new()).layer(Seal).service(service()).unwrap();
    assert_eq!(good.describe().to_string(), "q, sending\nlayers, outer to inner\n  1 compress\n  2 seal");
    // Where the other is not there, there is nothing to be inside of.
    Pipeline::sending("q").layer(&Seal).service(service()).unwrap();
    let bad = Pipeline::sending("q").layer(Seal).other("compress", Identity::new()).service(service());
    let says = "put `seal` inside of `compress`, or else sealed bytes are not made smaller";
    assert_eq!(bad.map(drop).unwrap_err().to_string(), says);
}

/// Rules: J-44.
#[tokio::test]
async fn a_consumer_takes_the_settings_that_were_checked() {
    let queue = Broker::new().create_queue("orders", QueueSettings::default()).unwrap();
    let handler = service_fn(async |_: Message| Ok::<_, BoxError>(Disposition::Complete));
    let consumer = Consumer::configured(queue.receiver(), handler, &settings()).unwrap();
    assert_eq!(consumer.health().snapshot().slots, 8);
    assert_eq!(format!("{consumer:?}"), "Consumer { concurrency: 8, prefetch: 4, .. }");
}
