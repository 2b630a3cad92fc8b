//! A queue with dead letters, on virtual time.

use consign::{
    Message,
    broker::{Queue, QueueSettings},
    dead_letters::DeadLetters,
    settlement::{DeadLetter, DeadLetterReason},
    testing::{TestBroker, TestQueue},
    transport::ReceiverExt,
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
        delivery.dead_letter(DeadLetter::new(reason, "why")).await.unwrap();
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
