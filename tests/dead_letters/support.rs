//! A queue with dead letters, on virtual time.

use consign::{
    Message,
    administration::QueueSettings,
    broker::Queue,
    dead_letters::DeadLetters,
    message::ApplicationProperties,
    settlement::{DeadLetter, DeadLetterReason},
    testing::{TestBroker, TestQueue},
    transport::{Batch, BoxFuture, ReceiverExt, SendError, Sender},
};

pub(crate) const OTHER: DeadLetterReason = DeadLetterReason::HandlerPermanent;
pub(crate) const UNDECODABLE: DeadLetterReason = DeadLetterReason::DeserializationFailed;

pub(crate) struct Bench {
    pub(crate) broker: TestBroker,
    pub(crate) queue: TestQueue,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::with(QueueSettings::default())
    }

    pub(crate) fn with(settings: QueueSettings) -> Self {
        let broker = TestBroker::new();
        let queue = broker.queue_with("orders", settings);
        Self { broker, queue }
    }

    /// Sends `message` and dead-letters what the queue then offers first.
    pub(crate) async fn bury(&self, message: Message, reason: DeadLetterReason) {
        self.queue.send_message(message);
        self.kill(reason).await;
    }

    pub(crate) async fn kill(&self, reason: DeadLetterReason) {
        let delivery = self.queue.receiver().receive().await.unwrap();
        let mut dead_letter = DeadLetter::new(reason, "why");
        let trail = ApplicationProperties::from_iter([(DeadLetter::TRAIL, "json;exact;Syntax;1:5")]);
        dead_letter.changes = trail.into();
        delivery.dead_letter(dead_letter).await.unwrap();
    }

    /// Messages with the ids from `from` on.
    pub(crate) async fn bury_many(&self, from: usize, count: usize, reason: &DeadLetterReason) {
        for id in from..from + count {
            let message = Message::builder().message_id(id.to_string()).build("body").unwrap();
            self.bury(message, reason.clone()).await;
        }
    }

    pub(crate) fn dead(&self) -> DeadLetters<Queue> {
        DeadLetters::new(self.queue.dead_letter())
    }
}

/// A sender that is a closure.
pub(crate) struct Sending<F>(F);

pub(crate) fn sending<F>(send: F) -> Sending<F>
where
    F: Fn(Message) -> BoxFuture<Result<(), SendError>> + Send + Sync + 'static,
{
    Sending(send)
}

impl<F> Sender for Sending<F>
where
    F: Fn(Message) -> BoxFuture<Result<(), SendError>> + Send + Sync + 'static,
{
    type Send = BoxFuture<Result<(), SendError>>;

    fn send(&self, message: Message) -> Self::Send {
        (self.0)(message)
    }

    fn send_batch(&self, _: Batch) -> Self::Send {
        unimplemented!("nothing is sent in batches")
    }
}
