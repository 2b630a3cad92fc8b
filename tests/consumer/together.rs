//! Messages that are completed in one step.

use std::{
    convert::Infallible,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use consign::{Disposition, Message, consumer::Consumer};
use tokio::{sync::Notify, time::Duration};
use tower::service_fn;

use crate::{assert_empty, fill, number, queue_with_lock, until, wakes, within};

/// Of each message, how many were handed out before it and not yet completed.
async fn behind(messages: u64, each: Duration) -> Vec<u64> {
    let queue = queue_with_lock(10);
    fill(&queue, usize::try_from(messages).unwrap()).await;
    let (seen, left) = (Arc::new(Mutex::new(Vec::new())), queue.clone());
    let noted = Arc::clone(&seen);
    let handler = service_fn(move |message: Message| {
        let completed = messages - left.counts().active as u64 - left.counts().locked as u64;
        noted.lock().unwrap().push(number(&message) - 1 - completed);
        wakes::pass(each);
        async { Ok::<_, Infallible>(Disposition::Complete) }
    });
    let consumer = Consumer::new(queue.receiver(), handler);
    let stats = consumer.stats();
    let stats = within(600, consumer.run_until(until(move || stats.completed() == messages))).await.unwrap();
    assert_eq!((stats.handled(), stats.completed(), stats.lock_lost()), (messages, messages, 0));
    assert_empty(&queue);
    Arc::into_inner(seen).unwrap().into_inner().unwrap()
}

#[tokio::test(start_paused = true)]
async fn while_handlers_are_quick_a_batch_is_completed_in_one_step() {
    let behind = behind(160, Duration::ZERO).await;
    let last: Vec<u64> = (0..16).collect();
    assert_eq!(behind[144..], last, "the last batch of 16");
}

#[tokio::test(start_paused = true)]
async fn messages_of_slow_handlers_are_completed_before_the_next() {
    let behind = behind(40, Duration::from_millis(2)).await;
    assert!(behind.iter().all(|&behind| behind == 0), "{behind:?}");
}

/// A handler that goes on may hold the thread, so what is done is completed before it does.
#[tokio::test(start_paused = true)]
async fn completions_do_not_wait_for_a_running_handler() {
    let queue = queue_with_lock(10);
    fill(&queue, 162).await;
    let (go, locked) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
    let (seen, left) = (Arc::clone(&locked), queue.clone());
    let handler = service_fn(move |message: Message| {
        let (go, seen, left) = (Arc::clone(&go), Arc::clone(&seen), left.clone());
        async move {
            match number(&message) {
                161 => {
                    go.notified().await;
                    seen.store(left.counts().locked, Ordering::Relaxed);
                }
                162 => go.notify_one(),
                _ => {}
            }
            Ok::<_, Infallible>(Disposition::Complete)
        }
    });
    let consumer = Consumer::new(queue.receiver(), handler);
    let stats = consumer.stats();
    within(60, consumer.run_until(until(move || stats.completed() == 162))).await.unwrap();
    assert_eq!(locked.load(Ordering::Relaxed), 1, "its own");
}

/// The locks end while the third of a batch is handled. The two before it wait to be completed.
#[tokio::test(start_paused = true)]
async fn a_lock_that_is_lost_on_the_way_is_counted_and_the_message_comes_again() {
    let queue = queue_with_lock(10);
    fill(&queue, 160).await;
    let held = queue.clone();
    let handler = service_fn(move |message: Message| {
        if number(&message) == 147 && message.received().unwrap().delivery_count == 1 {
            held.lose_locks();
        }
        async { Ok::<_, Infallible>(Disposition::Complete) }
    });
    let consumer = Consumer::new(queue.receiver(), handler);
    let stats = consumer.stats();
    let stats = within(60, consumer.run_until(until(move || stats.completed() == 160))).await.unwrap();
    assert_eq!((stats.handled(), stats.lock_lost(), stats.settle_failed()), (176, 16, 0));
    assert_empty(&queue);
}
