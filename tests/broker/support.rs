//! A queue on a clock that the test moves, and calls that never wait.

use std::{future::Ready, sync::Arc, task::Poll, time::Duration};

use consign::{
    Message,
    administration::QueueSettings,
    broker::{Acknowledged, Broker, Queue, QueueLease, QueueReceiver},
    message::Received,
    time::{ManualClock, Timestamp},
    transport::{Delivery, ErrorKind, ReceiverExt, SendError, Sender, SettleError},
};
use tokio_test::task;

pub(crate) const START: Timestamp = Timestamp::from_millis(1_700_000_000_000);
/// The lock duration of [`settings`].
pub(crate) const LOCK: Duration = Duration::from_secs(10);
/// A millisecond before its end.
pub(crate) const ALMOST_LOCK: Duration = Duration::from_millis(9_999);
pub(crate) const MS: Duration = Duration::from_millis(1);

pub(crate) fn settings() -> QueueSettings {
    QueueSettings::default().lock_duration(LOCK)
}

pub(crate) struct Bench {
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) broker: Broker,
    pub(crate) queue: Queue,
}

impl Bench {
    pub(crate) fn new(settings: QueueSettings) -> Self {
        let clock = Arc::new(ManualClock::new(START));
        let broker = Broker::with_clock(Arc::clone(&clock));
        let queue = broker.create_queue("orders", settings).unwrap();
        Self { clock, broker, queue }
    }

    pub(crate) fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    pub(crate) fn try_send(&self, message: Message) -> Result<(), SendError> {
        self.queue.sender().unwrap().send(message).wait()
    }

    /// Sends one message for each body.
    pub(crate) fn send<const N: usize>(&self, bodies: [&'static str; N]) {
        for body in bodies {
            self.try_send(Message::new(body)).unwrap();
        }
    }

    pub(crate) fn send_with_ttl(&self, body: &'static str, ttl: Duration) {
        self.try_send(Message::builder().time_to_live(ttl).build(body).unwrap()).unwrap();
    }

    pub(crate) fn try_receive(&self) -> Option<Delivery<QueueLease>> {
        take(&mut self.queue.receiver(), 1).pop()
    }

    /// The next message, which has to be there.
    pub(crate) fn receive(&self) -> Delivery<QueueLease> {
        self.try_receive().expect("a message is available")
    }

    pub(crate) fn try_receive_dead(&self) -> Option<Delivery<QueueLease>> {
        take(&mut self.queue.dead_letter().receiver(), 1).pop()
    }

    pub(crate) fn receive_dead(&self) -> Delivery<QueueLease> {
        self.try_receive_dead().expect("a dead letter is available")
    }

    /// Active, locked, deferred, dead-lettered.
    pub(crate) fn counts(&self) -> [usize; 4] {
        let counts = self.queue.counts();
        [counts.active, counts.locked, counts.deferred, counts.dead_lettered]
    }
}

/// Takes up to `max` messages that are there, without waiting. Waiting needs a runtime for its timer, so there is one.
pub(crate) fn take(receiver: &mut QueueReceiver, max: usize) -> Vec<Delivery<QueueLease>> {
    thread_local! {
        static RUNTIME: tokio::runtime::Runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    }
    RUNTIME.with(|runtime| {
        let _entered = runtime.enter();
        match task::spawn(receiver.receive_batch(max)).poll() {
            Poll::Ready(received) => received.unwrap(),
            Poll::Pending => Vec::new(),
        }
    })
}

pub(crate) trait Ended<T> {
    /// The outcome of a call that is over when it returns.
    fn ended(self) -> T;
    /// As [`Ended::ended`], for a call that succeeds.
    fn ok(self);
    /// As [`Ended::ended`], for a call that is refused.
    fn refused(self) -> ErrorKind;
}

impl<T> Ended<Result<T, SettleError>> for Ready<Result<T, SettleError>> {
    fn ended(self) -> Result<T, SettleError> {
        self.into_inner()
    }

    fn ok(self) {
        assert!(self.into_inner().is_ok());
    }

    fn refused(self) -> ErrorKind {
        self.into_inner().err().expect("it is refused").kind()
    }
}

impl<T> Ended<Result<T, SettleError>> for Acknowledged<T, SettleError> {
    fn ended(self) -> Result<T, SettleError> {
        self.wait()
    }

    fn ok(self) {
        assert!(self.wait().is_ok());
    }

    fn refused(self) -> ErrorKind {
        self.wait().err().expect("it is refused").kind()
    }
}

/// What the broker says of a delivered or peeked message.
pub(crate) fn facts(message: &Message) -> &Received {
    message.received().expect("the broker says something of what it delivers")
}

pub(crate) fn text(message: &Message) -> &str {
    std::str::from_utf8(message.payload().unwrap()).unwrap()
}

pub(crate) fn texts<'m>(messages: impl IntoIterator<Item = &'m Message>) -> Vec<&'m str> {
    messages.into_iter().map(text).collect()
}

/// The reason and the description of a dead letter.
pub(crate) fn why(message: &Message) -> (&str, &str) {
    (message.dead_letter_reason().unwrap_or_default(), message.dead_letter_description().unwrap_or_default())
}
