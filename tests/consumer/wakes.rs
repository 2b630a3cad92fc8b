//! What wakes the driver, and what keeps it from going to sleep.

use std::{
    convert::Infallible,
    future::{Future, pending, poll_fn},
    pin::pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
};

use consign::{Disposition, Message, consumer::Consumer};
use tokio::time::{Duration, sleep};
use tower::service_fn;

use crate::{
    assert_empty, delivery,
    fake::{Fake, Script, Step},
    fill, number, queue_with_lock, seconds, until, within,
};

/// Lets virtual time pass while the caller holds the thread.
pub(crate) fn pass(time: Duration) {
    let _ = pin!(tokio::time::advance(time)).poll(&mut Context::from_waker(Waker::noop()));
}

#[tokio::test(start_paused = true)]
async fn a_wake_up_after_the_handler_has_ended_does_not_make_it_spin() {
    let fake = Fake::new([Step::Deliver(Script::default())]);
    let left = Arc::new(Mutex::new(None));
    let keep = Arc::clone(&left);
    let handler = service_fn(move |_: Message| {
        let keep = Arc::clone(&keep);
        poll_fn(move |cx| {
            *keep.lock().unwrap() = Some(cx.waker().clone());
            Poll::Ready(Ok::<_, Infallible>(Disposition::Complete))
        })
    });
    let consumer = Consumer::new(fake.receiver(), handler);
    let stats = consumer.stats();
    let run = tokio::spawn(consumer.run());
    sleep(seconds(1)).await;
    left.lock().unwrap().take().unwrap().wake();
    sleep(seconds(1)).await;
    fake.push([Step::Deliver(Script::default())]);
    sleep(seconds(1)).await;
    assert!(!run.is_finished(), "it panicked");
    assert_eq!(stats.completed(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_wakes_itself_leaves_the_thread_to_others() {
    let queue = queue_with_lock(60);
    fill(&queue, 1).await;
    let polls = Arc::new(Mutex::new(0));
    let count = Arc::clone(&polls);
    let handler = service_fn(move |_: Message| {
        let count = Arc::clone(&count);
        poll_fn(move |cx| {
            *count.lock().unwrap() += 1;
            assert!(*count.lock().unwrap() < 1_000_000, "nobody else had a turn");
            cx.waker().wake_by_ref();
            Poll::<Result<Disposition, Infallible>>::Pending
        })
    });
    let consumer = Consumer::new(queue.receiver(), handler);
    let stats = consumer.stats();
    let run = tokio::spawn(consumer.run());
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!((stats.panicked(), stats.handled()), (0, 1));
    run.abort();
}

/// tokio grants a task a number of operations in each poll. One handler takes them all; the others, the renewals and the
/// end of the drain must have their turn.
#[tokio::test(start_paused = true)]
async fn a_handler_that_uses_up_what_tokio_grants_starves_nobody() {
    let queue = queue_with_lock(10);
    fill(&queue, 3).await;
    let handler = service_fn(|message: Message| async move {
        let number = number(&message);
        if number == 2 {
            // Always ready, and each receive is one of the operations.
            let (send, mut receive) = tokio::sync::mpsc::channel(1);
            loop {
                send.try_send(()).unwrap();
                receive.recv().await;
                pass(Duration::from_micros(100));
            }
        }
        let (send, mut receive) = tokio::sync::mpsc::channel(1);
        for _ in 0..100 {
            send.try_send(()).unwrap();
            receive.recv().await;
            tokio::task::yield_now().await;
        }
        Ok::<_, Infallible>(Disposition::Complete)
    });
    let consumer = Consumer::new(queue.receiver(), handler).drain_timeout(seconds(5));
    let stats = consumer.stats();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let run = tokio::spawn(consumer.run_until(stopped));
    for _ in 0..5_000 {
        tokio::task::yield_now().await;
    }
    assert_eq!((stats.completed(), stats.lock_lost()), (2, 0));
    assert!(stats.renewed() >= 5, "{}", stats.renewed());
    stop.send(()).unwrap();
    for _ in 0..5_000 {
        tokio::task::yield_now().await;
    }
    assert!(run.is_finished(), "the drain did not end");
    assert_eq!((stats.cancelled(), stats.abandoned()), (1, 1));
}

/// Polls a future from one task after another.
#[tokio::test(start_paused = true)]
async fn a_run_may_move_between_tasks() {
    let queue = queue_with_lock(60);
    fill(&queue, 50).await;
    let handler = service_fn(|_: Message| async {
        sleep(seconds(1)).await;
        Ok::<_, Infallible>(Disposition::Complete)
    });
    let consumer = Consumer::new(queue.receiver(), handler).concurrency(3);
    let stats = consumer.stats();
    let mut run = Box::pin(consumer.run_until(until(move || stats.completed() == 50)));
    let mut hops = 0;
    let stats = loop {
        let hop = tokio::spawn(async move {
            let mut polls = 0;
            let polled = poll_fn(|cx| {
                polls += 1;
                match run.as_mut().poll(cx) {
                    Poll::Ready(result) => Poll::Ready(Some(result)),
                    Poll::Pending if polls > 3 => Poll::Ready(None),
                    Poll::Pending => Poll::Pending,
                }
            });
            let result = polled.await;
            (run, result)
        });
        let (back, result) = within(60, hop).await.unwrap();
        run = back;
        hops += 1;
        if let Some(result) = result {
            break result.unwrap();
        }
    };
    assert!(hops > 10);
    assert_eq!(stats.handled(), 50);
    assert_empty(&queue);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wake_ups_from_other_threads_are_not_lost() {
    let queue = queue_with_lock(60);
    fill(&queue, 5_000).await;
    let handler = service_fn(|_: Message| async {
        tokio::task::spawn(async { tokio::task::yield_now().await }).await.unwrap();
        Ok::<_, Infallible>(Disposition::Complete)
    });
    let consumer = Consumer::new(queue.receiver(), handler).concurrency(70);
    let stats = consumer.stats();
    let run = consumer.run_until(until(move || stats.completed() == 5_000));
    let stats = within(60, tokio::spawn(run)).await.unwrap().unwrap();
    assert_eq!(stats.handled(), 5_000);
    assert_empty(&queue);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_run_leaves_no_lock() {
    let queue = queue_with_lock(60);
    fill(&queue, 20).await;
    let handler = service_fn(|_: Message| pending::<Result<Disposition, Infallible>>());
    let consumer = Consumer::new(queue.receiver(), handler).concurrency(4).prefetch(8);
    let run = tokio::spawn(consumer.run());
    sleep(seconds(1)).await;
    assert_eq!(queue.counts().locked, 12);
    run.abort();
    let _ = run.await;
    assert_eq!((queue.counts().active, queue.counts().locked), (20, 0));
    let rest = consign::transport::ReceiverExt::receive_batch(&mut queue.receiver(), 20).await.unwrap();
    let counted = rest.iter().filter(|rest| delivery(&rest.message) == 2).count();
    assert_eq!(counted, 4, "those that a handler had seen, and no other");
}
