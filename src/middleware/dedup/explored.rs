//! Deliveries of one message in any order of threads: `cargo xtask shuttle`.

use std::{
    future::Future,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use shuttle::{
    future::{block_on, yield_now},
    sync::atomic::AtomicUsize,
    thread,
};
use tower::{BoxError, Layer, Service, service_fn};

use super::{DedupLayer, MemoryStore};
use crate::{
    Disposition, Message,
    sync::{Ordering, explored::explore},
};

/// How many handlers run, and how many have ended.
#[derive(Default)]
struct Handled {
    inside: AtomicUsize,
    ended: AtomicUsize,
}

/// A handler of which no two may run at once.
struct Inside<'a>(&'a Handled);

impl<'a> Inside<'a> {
    fn new(handled: &'a Handled) -> Self {
        assert_eq!(handled.inside.fetch_add(1, Ordering::SeqCst), 0, "two handlers have the same message");
        Self(handled)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.inside.fetch_sub(1, Ordering::SeqCst);
    }
}

fn handler(
    handled: Arc<Handled>,
) -> impl Service<Message, Response = Disposition, Error = BoxError, Future: Send> + Clone + Send {
    let handler = service_fn(move |_: Message| {
        let handled = Arc::clone(&handled);
        async move {
            let inside = Inside::new(&handled);
            yield_now().await;
            handled.ended.fetch_add(1, Ordering::SeqCst);
            drop(inside);
            Ok::<_, BoxError>(Disposition::Complete)
        }
    });
    let store = MemoryStore::new(Duration::from_secs(60));
    DedupLayer::new(store, "orders").wait(Duration::ZERO).layer(handler)
}

fn message() -> Message {
    Message::builder().message_id("7").build("body").unwrap()
}

/// Delivers the message until it is completed, as a broker does.
fn deliver(mut handler: impl Service<Message, Response = Disposition, Error = BoxError>) {
    block_on(async {
        while handler.call(message()).await.unwrap() != Disposition::Complete {
            yield_now().await;
        }
    });
}

#[test]
fn one_of_two_deliveries_is_handled() {
    explore("one_of_two_deliveries_is_handled", || {
        let handled = Arc::new(Handled::default());
        let handler = handler(Arc::clone(&handled));
        let other = handler.clone();
        let thread = thread::spawn(move || deliver(other));
        deliver(handler);
        thread.join().unwrap();
        assert_eq!(handled.ended.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn a_delivery_that_is_dropped_leaves_the_message_to_the_next() {
    explore("a_delivery_that_is_dropped_leaves_the_message_to_the_next", || {
        let handled = Arc::new(Handled::default());
        let handler = handler(Arc::clone(&handled));
        let mut dropped = handler.clone();
        let thread = thread::spawn(move || {
            let mut delivery = pin!(dropped.call(message()));
            let polled = delivery.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(polled.is_pending() || matches!(polled, Poll::Ready(Ok(_))));
        });
        deliver(handler);
        thread.join().unwrap();
        assert_eq!(handled.ended.load(Ordering::SeqCst), 1);
    });
}
