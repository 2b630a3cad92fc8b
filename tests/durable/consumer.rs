//! A consumer on a broker on a disk.

use std::{convert::Infallible, future::Future, pin::pin, task::Context, time::Duration};

use consign::{
    Disposition, Message,
    administration::QueueSettings,
    broker::{Broker, Queue},
    consumer::Consumer,
    transport::Sender,
};
use futures_util::task::noop_waker_ref;
use tokio::sync::watch;
use tower::service_fn;

const MESSAGES: u64 = 100;

/// A store with so many messages.
async fn filled(broker: &Broker) -> Queue {
    let queue = broker.create_queue("orders", QueueSettings::default()).unwrap();
    let messages = (0..MESSAGES).map(|nth| Message::new(nth.to_string())).collect();
    queue.sender().unwrap().send_batch(messages).await.unwrap();
    queue
}

/// Rules: I-37.
/// The writer waits so long that nothing is on the disk unless a call waits for it. A consumer of one slot completes
/// nothing alone.
#[tokio::test]
async fn completions_are_on_the_disk_when_the_consumer_ends() {
    let folder = tempfile::tempdir().unwrap();
    let broker = Broker::options().group_delay(Duration::from_millis(200)).open(folder.path()).unwrap();
    let queue = filled(&broker).await;
    let (handled, mut count) = watch::channel(0);
    let handler = service_fn(move |_: Message| {
        handled.send_modify(|count| *count += 1);
        async { Ok::<_, Infallible>(Disposition::Complete) }
    });
    let finished = async move { count.wait_for(|count| *count == MESSAGES).await.map(drop) };
    let stats = Consumer::new(queue.receiver(), handler).concurrency(1).run_until(finished).await.unwrap();
    assert_eq!((stats.completed(), stats.settle_failed()), (MESSAGES, 0));
    let flush = pin!(broker.flush());
    assert!(flush.poll(&mut Context::from_waker(noop_waker_ref())).is_ready());
}

/// The last handler of the first messages closes the broker, and blocks until the store is free. The time is paused, so that no
/// handler counts as slow.
#[tokio::test(start_paused = true)]
async fn completions_that_the_disk_does_not_have_are_not_counted() {
    const FIRST: u64 = 16;
    let folder = tempfile::tempdir().unwrap();
    let broker = Broker::open(folder.path()).unwrap();
    let queue = filled(&broker).await;
    let (mut handled, closing) = (0, broker.clone());
    let handler = service_fn(move |_: Message| {
        handled += 1;
        if handled == FIRST {
            std::thread::scope(|scope| scope.spawn(|| close(&closing)).join().unwrap());
        }
        async { Ok::<_, Infallible>(Disposition::Complete) }
    });
    let consumer = Consumer::new(queue.receiver(), handler).concurrency(usize::try_from(FIRST).unwrap());
    let stats = consumer.stats();
    consumer.run().await.unwrap_err();
    // The first one is completed alone, for nothing is known of the handler.
    assert_eq!((stats.handled(), stats.completed(), stats.settle_failed()), (FIRST, 1, FIRST - 1));
    drop(broker);
    let broker = Broker::open(folder.path()).unwrap();
    assert_eq!(broker.queue("orders").unwrap().counts().active as u64, MESSAGES - stats.completed());
}

#[tokio::main(flavor = "current_thread")]
async fn close(broker: &Broker) {
    broker.close().await.unwrap();
}
