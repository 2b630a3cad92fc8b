//! The driver of a receiving stack, over the embedded broker and over a transport that misbehaves as it is told.

#![cfg(feature = "embedded")]
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod control;
mod dead_letters;
mod dead_letters_again;
mod drain;
mod fake;
mod handlers;
mod health;
mod held;
mod layers;
#[cfg(all(feature = "json", feature = "testing"))]
mod log;
mod partition;
mod prefetch;
mod receiving;
mod refused;
mod renewal;
#[cfg(all(feature = "json", feature = "testing"))]
mod reported;
mod session_control;
mod session_handle;
mod sessions;
mod sessions_lost;
mod sessions_slow;
mod settle_once;
mod slots;
mod spawn;
mod supervisor;
mod together;
mod unanswered;
mod wakes;

use std::{
    convert::Infallible,
    future::{Future, pending},
    panic,
    sync::{
        Arc, Once,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use consign::{
    Disposition, Message,
    administration::QueueSettings,
    broker::{Broker, Queue},
    transport::Sender,
};
use tokio::time::{sleep, timeout};
use tower::{Service, service_fn};

/// The text of panics that are part of a test.
const ON_PURPOSE: &str = "on purpose";

fn queue(settings: QueueSettings) -> Queue {
    Broker::new().create_queue("orders", settings).unwrap()
}

/// A queue whose locks hold for `seconds`, and whose messages may be delivered without end.
fn queue_with_lock(seconds: u64) -> Queue {
    let lock = Duration::from_secs(seconds);
    queue(QueueSettings::default().lock_duration(lock).max_delivery_count(u32::MAX))
}

async fn fill(queue: &Queue, messages: usize) {
    let sender = queue.sender().unwrap();
    for _ in 0..messages {
        sender.send(Message::new("an order")).await.unwrap();
    }
}

/// Ready when `holds` does. It looks every 10 ms.
async fn until(mut holds: impl FnMut() -> bool) {
    while !holds() {
        sleep(Duration::from_millis(10)).await;
    }
}

/// Fails instead of waiting for ever.
async fn within<F: Future>(seconds: u64, future: F) -> F::Output {
    timeout(Duration::from_secs(seconds), future).await.expect("it took too long")
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// The delivery that a handler sees: 1 is the first.
fn delivery(message: &Message) -> u32 {
    message.received().unwrap().delivery_count
}

fn number(message: &Message) -> u64 {
    message.received().unwrap().sequence_number.get()
}

fn panic_on_purpose() -> ! {
    panic!("{ON_PURPOSE}")
}

/// Keeps panics that are part of a test out of its output.
fn hush() {
    static HUSH: Once = Once::new();
    HUSH.call_once(|| {
        let show = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let payload = info.payload();
            let text = payload.downcast_ref::<String>().map(String::as_str);
            if text.or(payload.downcast_ref::<&str>().copied()) != Some(ON_PURPOSE) {
                show(info);
            }
        }));
    });
}

#[track_caller]
fn assert_empty(queue: &Queue) {
    let counts = queue.counts();
    assert_eq!((counts.active, counts.locked, counts.deferred, counts.dead_lettered), (0, 0, 0, 0));
}

/// How many are there now, and how many were there at most.
#[derive(Clone, Default)]
struct Gauge(Arc<[AtomicUsize; 2]>);

struct Entered(Gauge);

impl Gauge {
    fn enter(&self) -> Entered {
        let now = self.0[0].fetch_add(1, Ordering::Relaxed) + 1;
        self.0[1].fetch_max(now, Ordering::Relaxed);
        Entered(self.clone())
    }

    /// A handler that does not end. It counts the messages that it has.
    fn hanging(
        &self,
    ) -> impl Service<Message, Response = Disposition, Error = Infallible, Future: Send + 'static> + Clone + Send + use<>
    {
        let gauge = self.clone();
        service_fn(move |_: Message| {
            let entered = gauge.enter();
            async move {
                pending::<()>().await;
                drop(entered);
                Ok::<_, Infallible>(Disposition::Complete)
            }
        })
    }

    fn now(&self) -> usize {
        self.0[0].load(Ordering::Relaxed)
    }

    fn most(&self) -> usize {
        self.0[1].load(Ordering::Relaxed)
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.0.0[0].fetch_sub(1, Ordering::Relaxed);
    }
}
