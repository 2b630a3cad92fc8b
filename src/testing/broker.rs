use std::{future::Future, ops::Deref, sync::Arc, time::Duration};

use futures_util::FutureExt;
use tower::BoxError;
use tower_service::Service;

use super::{clock::TestClock, idle::Idle, sender::TestSender, show::Listed};
use crate::{
    Disposition, Message,
    administration::QueueSettings,
    broker::{Broker, Queue, QueueLease},
    consumer::{Consumer, Stats},
    message::{MessageBody, SequenceNumber},
    settlement::DeadLetterReason,
    time::{Clock, Timestamp},
    transport::{Delivery, ErrorKind, ReceiverExt, SendError, Sender},
};

/// An in-process broker whose time the test advances. Operations that it cannot carry out panic.
///
/// Its time is what [`advance`](Self::advance) adds, and tokio's if that is paused when the broker is made, as in
/// `#[tokio::test(start_paused = true)]`. It never follows a real clock. UTC begins at [`TestBroker::START`].
#[derive(Clone, Debug)]
pub struct TestBroker {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    broker: Broker,
    clock: Arc<TestClock>,
}

impl TestBroker {
    /// UTC when a broker is made: 2023-11-14T22:13:20Z.
    pub const START: Timestamp = TestClock::START;

    /// An empty broker.
    #[must_use]
    pub fn new() -> Self {
        let clock = Arc::new(TestClock::new());
        let broker = Broker::with_clock(Arc::clone(&clock));
        Self { inner: Arc::new(Inner { broker, clock }) }
    }

    /// Creates a queue with the default settings.
    #[track_caller]
    #[must_use]
    pub fn queue(&self, path: &str) -> TestQueue {
        self.queue_with(path, QueueSettings::default())
    }

    /// A new queue.
    #[track_caller]
    #[must_use]
    pub fn queue_with(&self, path: &str, settings: QueueSettings) -> TestQueue {
        match self.inner.broker.create_queue(path, settings) {
            Ok(queue) => self.watch(queue),
            Err(error) => panic!("no queue `{path}`: {error}"),
        }
    }

    /// A queue that was made by [`broker`](Self::broker), with the short cuts that this broker's own queues have.
    #[must_use]
    pub fn watch(&self, queue: Queue) -> TestQueue {
        TestQueue { queue }
    }

    /// Returns the broker, for operations without a method here.
    #[must_use]
    pub fn broker(&self) -> &Broker {
        &self.inner.broker
    }

    /// UTC as the broker sees it.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.inner.clock.now().utc
    }

    /// Returns the broker's clock, to share it with other components.
    #[must_use]
    pub fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.inner.clock) as _
    }

    /// Moves the broker's time on, whole milliseconds. What is due by then has happened when the call returns: locks have
    /// run out, messages have expired. tokio's time stays as it is; where it is paused, `tokio::time::sleep` moves both.
    pub fn advance(&self, by: Duration) {
        self.inner.clock.skip(by);
        // Any call lets everything happen that is due.
        let _ = self.inner.broker.entities();
    }
}

impl Default for TestBroker {
    fn default() -> Self {
        Self::new()
    }
}

/// A queue of a [`TestBroker`], with calls that do not wait. It dereferences to [`Queue`].
#[derive(Clone, Debug)]
pub struct TestQueue {
    queue: Queue,
}

impl Deref for TestQueue {
    type Target = Queue;

    fn deref(&self) -> &Queue {
        &self.queue
    }
}

impl TestQueue {
    /// Most messages that [`messages`](Self::messages) and [`dead_letters`](Self::dead_letters) look at.
    pub const LOOK: usize = 1_000;

    /// Returns a sender that has the clock of the broker, by which a `DelayPolicy` computes when a message is due.
    ///
    /// # Errors
    ///
    /// As [`Queue::sender`].
    pub fn sender(&self) -> Result<TestSender, SendError> {
        Ok(TestSender::new(self.queue.sender()?))
    }

    /// Sends a body without properties.
    #[track_caller]
    pub fn send(&self, body: impl Into<MessageBody>) {
        self.send_message(Message::new(body));
    }

    /// Sends a message.
    #[track_caller]
    pub fn send_message(&self, message: Message) {
        if let Err(error) = self.try_send(message) {
            panic!("{error}");
        }
    }

    /// Sends a message that may be refused.
    pub fn try_send(&self, message: Message) -> Result<(), SendError> {
        let sent = self.queue.sender()?.send(message).now_or_never();
        sent.unwrap_or_else(|| Err(SendError::new(ErrorKind::ServiceTimeout).with_detail("not answered at once")))
    }

    /// Returns the next message, if there is one. Dropped unsettled it is abandoned.
    #[track_caller]
    #[must_use = "a delivery that is dropped is abandoned, and the failed delivery counts"]
    pub fn receive_now(&self) -> Option<Delivery<QueueLease>> {
        self.receive_up_to(1).pop()
    }

    /// Returns the messages that are there, at most `max`.
    #[track_caller]
    #[must_use = "a delivery that is dropped is abandoned, and the failed delivery counts"]
    pub fn receive_up_to(&self, max: usize) -> Vec<Delivery<QueueLease>> {
        receive_from(&self.queue, max)
    }

    /// Returns the next dead letter, if there is one.
    #[track_caller]
    #[must_use = "a delivery that is dropped is abandoned, and the failed delivery counts"]
    pub fn receive_dead_letter_now(&self) -> Option<Delivery<QueueLease>> {
        receive_from(&self.queue.dead_letter(), 1).pop()
    }

    /// Returns the messages of the queue, scheduled, locked and deferred ones among them, without receiving them.
    #[must_use]
    pub fn messages(&self) -> Vec<Message> {
        self.queue.peek(SequenceNumber::new(0), Self::LOOK)
    }

    /// Returns the dead letters, without receiving them.
    #[must_use]
    pub fn dead_letters(&self) -> Vec<Message> {
        self.queue.dead_letter().peek(SequenceNumber::new(0), Self::LOOK)
    }

    /// Receives each available message, calls `service`, and settles the message by the result, one at a time, until the
    /// queue is empty. An abandoned message is redelivered, up to the queue's `max_delivery_count`. A scheduled message
    /// stays in the queue: advance the time, and run again. So does one that is abandoned with a delay, which ends with the run, as at a
    /// shutdown: test the delay by a [`Consumer`] of your own, with tokio's time paused.
    ///
    /// A handler that waits needs tokio's time, paused.
    pub async fn run<S>(&self, service: S) -> Stats
    where
        S: Service<Message, Response = Disposition>,
        S::Error: Into<BoxError>,
    {
        let idle = Idle::default();
        let consumer = Consumer::without_clone(idle.watch(self.queue.receiver()), service).concurrency(1);
        match consumer.run_until(idle.wait()).await {
            Ok(stats) => stats,
            Err(error) => panic!("{error}"),
        }
    }

    /// Panics unless nothing is left in the queue: nothing active, scheduled, locked or deferred. Dead letters may be.
    #[track_caller]
    pub fn assert_empty(&self) {
        let left = self.messages();
        assert!(left.is_empty(), "in `{}` are left:{}", self.queue.path(), Listed(&left));
    }

    /// Panics unless there is a dead letter with this reason, and returns the first.
    #[track_caller]
    #[expect(clippy::must_use_candidate, reason = "it asserts")]
    pub fn assert_dead_lettered(&self, reason: &DeadLetterReason) -> Message {
        let dead = self.dead_letters();
        let found = dead.iter().find(|message| message.dead_letter_reason() == Some(reason.as_str()));
        let path = self.queue.path();
        found.cloned().unwrap_or_else(|| panic!("no dead letter of `{path}` is {reason}; there are:{}", Listed(&dead)))
    }
}

#[track_caller]
fn receive_from(queue: &Queue, max: usize) -> Vec<Delivery<QueueLease>> {
    let mut receiver = queue.receiver();
    match in_runtime(|| receiver.receive_batch(max).now_or_never()) {
        Some(Ok(received)) => received,
        Some(Err(error)) => panic!("{error}"),
        None => Vec::new(),
    }
}

/// A receiver that finds nothing sets a timer, and a timer needs a runtime.
fn in_runtime<T>(call: impl FnOnce() -> T) -> T {
    thread_local! {
        static RUNTIME: std::io::Result<tokio::runtime::Runtime> =
            tokio::runtime::Builder::new_current_thread().enable_time().build();
    }
    if tokio::runtime::Handle::try_current().is_ok() {
        return call();
    }
    RUNTIME.with(|runtime| match runtime {
        Ok(runtime) => {
            let _entered = runtime.enter();
            call()
        }
        Err(error) => panic!("no runtime: {error}"),
    })
}

const _: fn() = || {
    fn is_future<T: Future + Send>(_: T) {}
    fn runs(queue: &TestQueue) {
        is_future(queue.run(tower::service_fn(|_: Message| async { Ok::<_, BoxError>(Disposition::Complete) })));
    }
    let _ = runs;
};
