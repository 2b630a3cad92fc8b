//! How many messages are in hand at once.

use std::convert::Infallible;

use consign::{Disposition, Message, consumer::Consumer};
use tokio::time::sleep;
use tower::service_fn;

use crate::{
    Gauge, assert_empty,
    fake::{Fake, Script, Step},
    fill, queue_with_lock, seconds, until, within,
};

#[tokio::test(start_paused = true)]
async fn never_more_handlers_than_slots_and_no_more_locks() {
    for slots in [1, 16, 64, 65, 200] {
        let queue = queue_with_lock(60);
        let messages = slots * 2 + 3;
        fill(&queue, messages).await;
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
        let consumer = Consumer::new(queue.receiver(), handler).concurrency(slots);
        let (stats, seen) = (consumer.stats(), consumer.stats());
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let run = tokio::spawn(consumer.run_until(stopped));
        sleep(seconds(1) / 2).await;
        assert_eq!((gauge.now(), queue.counts().locked), (slots, slots));
        assert_eq!(queue.counts().active, messages - slots, "the rest stays unlocked");
        within(60, until(move || stats.completed() == messages as u64)).await;
        stop.send(()).unwrap();
        within(60, run).await.unwrap().unwrap();
        assert_eq!((gauge.most(), seen.handled()), (slots, messages as u64));
        assert_empty(&queue);
    }
}

#[tokio::test(start_paused = true)]
async fn a_receive_requests_as_many_messages_as_there_are_free_slots() {
    let deliver = |n| (0..n).map(|_| Step::Deliver(Script::default()));
    let fake = Fake::new(deliver(3));
    let handler = service_fn(|_: Message| async {
        sleep(seconds(100)).await;
        Ok::<_, Infallible>(Disposition::Complete)
    });
    let consumer = Consumer::new(fake.receiver(), handler).concurrency(5);
    let stats = consumer.stats();
    tokio::spawn(consumer.run());
    sleep(seconds(1)).await;
    fake.push(deliver(10));
    sleep(seconds(1)).await;
    assert_eq!((stats.handled(), fake.wanted()), (5, vec![5, 2]));
}

#[tokio::test(start_paused = true)]
async fn concurrency_is_brought_inside_its_range() {
    for (asked, slots) in [(0, 1), (1 << 20, 4_096)] {
        let fake = Fake::new((0..5_000).map(|_| Step::Deliver(Script::default())));
        let handler = service_fn(|_: Message| std::future::pending::<Result<Disposition, Infallible>>());
        let consumer = Consumer::new(fake.receiver(), handler).concurrency(asked);
        let stats = consumer.stats();
        tokio::spawn(consumer.run());
        sleep(seconds(1)).await;
        assert_eq!(stats.handled(), slots);
    }
}
