//! tower's own layers around a receiving stack.

use std::{convert::Infallible, future::ready, time::Duration};

use consign::{
    Disposition, Message,
    consumer::{ConsumeError, Consumer, Stats},
};
use tokio::{
    task::yield_now,
    time::{Instant, sleep},
};
use tower::{BoxError, Service, ServiceBuilder, retry::Policy, service_fn};

use crate::{Gauge, assert_empty, delivery, fill, hush, panic_on_purpose, queue_with_lock, seconds, until, within};

/// Runs a stack until `messages` messages are completed.
async fn complete<S>(messages: usize, stack: S) -> Stats
where
    S: Service<Message, Response = Disposition, Error: Into<BoxError>>,
{
    let queue = queue_with_lock(60);
    fill(&queue, messages).await;
    // Tower's rate limit is not `Clone`.
    let consumer = Consumer::without_clone(queue.receiver(), stack);
    let stats = consumer.stats();
    let stats = within(3_600, consumer.run_until(until(move || stats.completed() >= messages as u64))).await.unwrap();
    assert_empty(&queue);
    assert_eq!(stats.completed(), messages as u64);
    stats
}

#[tokio::test(start_paused = true)]
async fn timeout_abandons() {
    let handler = service_fn(|message: Message| async move {
        if delivery(&message) == 1 {
            sleep(seconds(10)).await;
        }
        Ok::<_, Infallible>(Disposition::Complete)
    });
    let stats = complete(5, ServiceBuilder::new().timeout(seconds(1)).service(handler)).await;
    assert_eq!((stats.handled(), stats.failed(), stats.abandoned()), (10, 5, 5));
}

#[tokio::test(start_paused = true)]
async fn concurrency_limit_holds() {
    let gauge = Gauge::default();
    let inside = gauge.clone();
    let handler = service_fn(move |_: Message| {
        let entered = inside.enter();
        async move {
            sleep(seconds(1)).await;
            drop(entered);
            Ok::<_, Infallible>(Disposition::Complete)
        }
    });
    let stats = complete(10, ServiceBuilder::new().concurrency_limit(3).service(handler)).await;
    assert_eq!((stats.handled(), gauge.most()), (10, 3));
}

#[derive(Clone)]
struct Twice(u32);

impl Policy<Message, Disposition, BoxError> for Twice {
    type Future = std::future::Ready<()>;

    fn retry(&mut self, _: &mut Message, result: &mut Result<Disposition, BoxError>) -> Option<Self::Future> {
        self.0 = self.0.checked_sub(1)?;
        result.is_err().then(|| ready(()))
    }

    fn clone_request(&mut self, message: &Message) -> Option<Message> {
        Some(message.clone())
    }
}

#[tokio::test(start_paused = true)]
async fn retry_is_one_delivery() {
    let calls = Gauge::default();
    let count = calls.clone();
    let handler = service_fn(move |_: Message| {
        std::mem::forget(count.enter());
        let calls = count.now();
        ready(if calls % 3 == 0 { Ok(Disposition::Complete) } else { Err(BoxError::from("not yet")) })
    });
    let stats = complete(4, ServiceBuilder::new().retry(Twice(2)).service(handler)).await;
    assert_eq!((stats.handled(), stats.failed(), calls.now()), (4, 0, 12));
}

#[tokio::test(start_paused = true)]
async fn buffer_hands_on() {
    let handler = service_fn(|message: Message| async move {
        yield_now().await;
        if delivery(&message) == 1 { Err(BoxError::from("not yet")) } else { Ok(Disposition::Complete) }
    });
    let stats = complete(100, ServiceBuilder::new().buffer(4).service(handler)).await;
    assert_eq!((stats.handled(), stats.failed()), (200, 100));
}

#[tokio::test(start_paused = true)]
async fn a_buffer_whose_worker_died_ends_the_consumer() {
    hush();
    let queue = queue_with_lock(60);
    fill(&queue, 20).await;
    let handler = service_fn(|message: Message| {
        if crate::number(&message) == 3 {
            panic_on_purpose();
        }
        ready(Ok::<_, BoxError>(Disposition::Complete))
    });
    let stack = ServiceBuilder::new().buffer(4).service(handler);
    let error = within(60, Consumer::new(queue.receiver(), stack).run()).await.unwrap_err();
    assert!(matches!(error, ConsumeError::Service(_)), "{error:?}");
    assert_eq!((queue.counts().active, queue.counts().locked), (18, 0));
}

#[tokio::test(start_paused = true)]
async fn load_shed_abandons() {
    let handler = service_fn(|_: Message| async {
        for _ in 0..3 {
            yield_now().await;
        }
        Ok::<_, Infallible>(Disposition::Complete)
    });
    let stats = complete(20, ServiceBuilder::new().load_shed().concurrency_limit(2).service(handler)).await;
    assert!(stats.failed() > 0);
    assert_eq!((stats.abandoned(), stats.handled()), (stats.failed(), 20 + stats.failed()));
}

#[tokio::test(start_paused = true)]
async fn rate_limit_paces() {
    let started = Instant::now();
    let handler = service_fn(|_: Message| ready(Ok::<_, Infallible>(Disposition::Complete)));
    let stats = complete(20, ServiceBuilder::new().rate_limit(5, seconds(1)).service(handler)).await;
    assert_eq!(stats.handled(), 20);
    assert!((Duration::from_millis(2_900)..seconds(5)).contains(&started.elapsed()), "{:?}", started.elapsed());
}
