//! The pages have what their programs print.

use std::time::Duration;

use consign::{
    administration::QueueSettings,
    broker::Broker,
    codecs::Codecs,
    consumer::Settings,
    middleware::{
        dedup::{DedupLayer, MemoryStore},
        retry::{Backoff, DelayPolicy, RetryLayer},
    },
    pipeline::Pipeline,
    routing::{Body, Router},
};

/// The page leaves out the list of formats at the end.
#[test]
fn the_chapter_on_consumers_has_the_description_of_its_pipeline() {
    let queue = Broker::new().create_queue("orders", QueueSettings::default()).unwrap();
    let backoff = Backoff::exponential(Duration::from_secs(10));
    let delays = DelayPolicy::new(queue.sender().unwrap(), backoff).unwrap().deliveries(5);
    let settings = Settings::new().concurrency(32).drain_timeout(Duration::from_secs(20));
    let router = Router::new(Codecs::json()).route("order.placed", async |Body(_): Body<u64>| {});
    let pipeline = Pipeline::receiving("orders")
        .consumer(&settings)
        .layer(RetryLayer::new().immediate(1).delayed(delays))
        .layer(DedupLayer::new(MemoryStore::new(Duration::from_secs(3_600)), "orders"))
        .router(router.build().unwrap())
        .unwrap();

    let printed = pipeline.describe().to_string();
    let (shown, _) = printed.split_once("ContentType\n").unwrap();
    assert!(include_str!("../src/consumer.md").contains(shown), "the page should have\n{shown}");
}
