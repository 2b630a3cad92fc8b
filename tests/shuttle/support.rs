//! A queue on virtual time, in which any thread may come between a reading of the clock and what is done with it.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use consign::{
    Message,
    administration::QueueSettings,
    broker::{Broker, Queue, QueueLease, QueueReceiver},
    time::{Clock, Moment, Timestamp},
    transport::{Delivery, ReceiveError, ReceiverExt, Sender},
};
use shuttle::{
    future::{block_on, yield_now},
    sync::atomic::{AtomicU64, Ordering},
    thread::{self, JoinHandle},
};
use tokio::{
    runtime::{self, Runtime},
    time::{Instant, advance},
};

pub(crate) const START: Timestamp = Timestamp::from_millis(1_700_000_000_000);
/// The lock duration of [`settings`].
pub(crate) const LOCK: Duration = Duration::from_secs(10);
pub(crate) const MS: Duration = Duration::from_millis(1);

thread_local! {
    /// Has the timer of a broker whose receivers wait. All of shuttle's threads are one to the operating system. It is never dropped:
    /// that would wake those that still wait after a failure.
    static RUNTIME: &'static Runtime = Box::leak(Box::new(
        runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap(),
    ));
}

pub(crate) fn in_virtual_time<T>(run: impl FnOnce() -> T) -> T {
    RUNTIME.with(|runtime| {
        let _entered = runtime.enter();
        run()
    })
}

/// tokio's virtual time. Reading it and moving it on are steps before which another thread may come.
pub(crate) struct StepClock {
    start: Instant,
    steps: AtomicU64,
}

impl Clock for StepClock {
    fn now(&self) -> Moment {
        self.steps.load(Ordering::SeqCst);
        let elapsed = self.start.elapsed();
        Moment { elapsed, utc: START.saturating_add(elapsed) }
    }
}

#[derive(Clone)]
pub(crate) struct Bench {
    clock: Arc<StepClock>,
    pub(crate) broker: Broker,
    pub(crate) queue: Queue,
}

pub(crate) fn settings() -> QueueSettings {
    QueueSettings::default().lock_duration(LOCK)
}

impl Bench {
    pub(crate) fn new(settings: QueueSettings) -> Self {
        let clock = Arc::new(StepClock { start: Instant::now(), steps: AtomicU64::new(0) });
        let broker = Broker::with_clock(Arc::clone(&clock));
        let queue = broker.create_queue("orders", settings).unwrap();
        Self { clock, broker, queue }
    }

    /// Time passes, and timers that are due wake whom they are for.
    pub(crate) fn advance(&self, by: Duration) {
        self.clock.steps.fetch_add(1, Ordering::SeqCst);
        RUNTIME.with(|runtime| runtime.block_on(advance(by)));
    }

    pub(crate) fn send(&self, body: &'static str) {
        self.send_message(Message::new(body));
    }

    pub(crate) fn send_message(&self, message: Message) {
        self.queue.sender().unwrap().send(message).wait().unwrap();
    }

    /// What can be received without waiting.
    pub(crate) fn try_receive(&self) -> Option<Delivery<QueueLease>> {
        match poll_once(self.queue.receiver().receive()) {
            Poll::Ready(received) => Some(received.unwrap()),
            Poll::Pending => None,
        }
    }

    /// Active, locked, deferred, dead-lettered.
    pub(crate) fn counts(&self) -> [usize; 4] {
        let counts = self.queue.counts();
        [counts.active, counts.locked, counts.deferred, counts.dead_lettered]
    }

    /// Runs in a thread of its own.
    pub(crate) fn spawn<T: Send + 'static>(&self, run: impl FnOnce(&Self) -> T + Send + 'static) -> JoinHandle<T> {
        let bench = self.clone();
        thread::spawn(move || run(&bench))
    }
}

/// Polls a future once and drops it.
pub(crate) fn poll_once<T>(future: impl Future<Output = T>) -> Poll<T> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Polls a future once, lets others go on, polls it once more and drops it.
pub(crate) fn wait_briefly<T>(future: impl Future<Output = T>) -> Option<T> {
    block_on(async {
        let mut future = pin!(future);
        for _ in 0..2 {
            if let Poll::Ready(done) = poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await {
                return Some(done);
            }
            yield_now().await;
        }
        None
    })
}

/// Waits for a message, without an end.
pub(crate) fn wait(receiver: &mut QueueReceiver) -> Result<Delivery<QueueLease>, ReceiveError> {
    block_on(receiver.receive())
}

pub(crate) fn text(message: &Message) -> &str {
    std::str::from_utf8(message.payload().unwrap()).unwrap()
}

/// How often the message was delivered.
pub(crate) fn count(message: &Message) -> u32 {
    message.received().unwrap().delivery_count
}
