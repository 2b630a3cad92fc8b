//! Handlers that run in tasks of their own.

use std::{
    convert::Infallible,
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use consign::{
    Disposition, Message,
    consumer::Consumer,
    middleware::{
        dedup::{DedupLayer, MemoryStore},
        spawn::{NotRun, SpawnLayer},
    },
    transport::Sender,
};
use tokio::time::sleep;
use tower::{BoxError, Layer, ServiceBuilder, ServiceExt, service_fn};

use crate::{Gauge, assert_empty, fill, hush, panic_on_purpose, queue_with_lock, seconds, until, within};

/// Rules: J-252.
#[test]
fn handlers_of_one_consumer_run_at_the_same_time_on_several_threads() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(3).enable_all().build().unwrap();
    runtime.block_on(async {
        let queue = queue_with_lock(60);
        fill(&queue, 2).await;
        // Each blocks its thread until the other one is there.
        let both = std::sync::Arc::new(std::sync::Barrier::new(2));
        let handler = service_fn(move |_: Message| {
            both.wait();
            async { Ok::<_, Infallible>(Disposition::Complete) }
        });
        let consumer = Consumer::new(queue.receiver(), SpawnLayer::new().layer(handler)).concurrency(2);
        let stats = consumer.stats();
        consumer.run_until(until(move || stats.completed() == 2)).await.unwrap();
        assert_empty(&queue);
    });
}

/// Rules: J-252.
#[tokio::test(start_paused = true)]
async fn the_task_is_in_the_span_of_the_caller() {
    let _subscriber = tracing::subscriber::set_default(tracing_subscriber::registry());
    let handler = service_fn(|_: Message| async {
        Ok::<_, Infallible>(tracing::Span::current().metadata().map(tracing::Metadata::name))
    });
    let call = SpawnLayer::new().layer(handler).oneshot(Message::new("m"));
    let seen = tracing::Instrument::instrument(call, tracing::info_span!("process")).await;
    assert_eq!(seen.unwrap(), Some("process"));
}

/// Rules: J-252.
#[tokio::test(start_paused = true)]
async fn a_panic_in_a_task_costs_one_delivery() {
    hush();
    let queue = queue_with_lock(60);
    fill(&queue, 3).await;
    let handler = service_fn(|message: Message| async move {
        if crate::number(&message) == 2 && crate::delivery(&message) == 1 {
            panic_on_purpose();
        }
        Ok::<_, Infallible>(Disposition::Complete)
    });
    let consumer = Consumer::new(queue.receiver(), SpawnLayer::new().layer(handler));
    let stats = consumer.stats();
    let stats = within(60, consumer.run_until(until(move || stats.completed() == 3))).await.unwrap();
    assert_eq!((stats.panicked(), stats.abandoned(), stats.handled()), (1, 1, 4));
    assert_empty(&queue);
}

/// Rules: J-252.
#[tokio::test(start_paused = true)]
async fn a_handler_in_a_task_is_dropped_at_the_drain_timeout_and_with_the_run() {
    for drains in [true, false] {
        let queue = queue_with_lock(60);
        fill(&queue, 3).await;
        let gauge = Gauge::default();
        let consumer =
            Consumer::new(queue.receiver(), SpawnLayer::new().layer(gauge.hanging())).drain_timeout(seconds(10));
        let stats = consumer.stats();
        if drains {
            within(60, consumer.run_until(sleep(seconds(1)))).await.unwrap();
            assert_eq!((stats.cancelled(), stats.abandoned()), (3, 3));
        } else {
            assert!(tokio::time::timeout(seconds(1), consumer.run()).await.is_err());
        }
        assert_eq!(gauge.most(), 3);
        sleep(Duration::from_millis(1)).await;
        assert_eq!((gauge.now(), queue.counts().locked), (0, 0));
    }
}

/// Rules: W-12, J-252.
#[test]
fn a_handler_that_computes_at_the_drain_timeout_has_its_effect_once() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(3).enable_all().build().unwrap();
    runtime.block_on(async {
        let queue = queue_with_lock(60);
        let message = Message::builder().message_id("order-17").build("one order").unwrap();
        queue.sender().unwrap().send(message).await.unwrap();
        let effects = Arc::new(AtomicUsize::new(0));
        let [started, go] = [(); 2].map(|()| Arc::new(std::sync::Barrier::new(2)));
        let (counted, begun, may_end) = (Arc::clone(&effects), Arc::clone(&started), Arc::clone(&go));
        let handler = service_fn(move |message: Message| {
            if crate::delivery(&message) == 1 {
                begun.wait();
                may_end.wait();
            }
            counted.fetch_add(1, Ordering::SeqCst);
            async { Ok::<_, Infallible>(Disposition::Complete) }
        });
        let dedup = DedupLayer::new(MemoryStore::new(seconds(600)), "orders");
        let stack = ServiceBuilder::new().layer(SpawnLayer::new()).layer(dedup).service(handler);
        let consumer = Consumer::new(queue.receiver(), stack.clone()).drain_timeout(Duration::from_millis(1));
        let has_begun = tokio::task::spawn_blocking(move || started.wait());
        let stats = consumer.run_until(async { drop(has_begun.await) }).await.unwrap();
        assert_eq!((stats.cancelled(), effects.load(Ordering::SeqCst)), (1, 0));
        tokio::task::spawn_blocking(move || go.wait()).await.unwrap();
        let consumer = Consumer::new(queue.receiver(), stack);
        let stats = consumer.stats();
        within(60, consumer.run_until(until(move || stats.completed() == 1))).await.unwrap();
        assert_eq!(effects.load(Ordering::SeqCst), 1);
        assert_empty(&queue);
    });
}

/// Rules: J-252.
#[test]
fn a_call_fails_when_its_runtime_shuts_down() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let stack = SpawnLayer::new().layer(service_fn(|_: Message| pending::<Result<Disposition, BoxError>>()));
    let call = runtime.block_on(async {
        stack.ready_oneshot().await.map(|mut stack| tower::Service::call(&mut stack, Message::new("one")))
    });
    drop(runtime);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let error = runtime.block_on(call.unwrap()).unwrap_err();
    assert!(error.is::<NotRun>(), "{error}");
}
