//! A sender with a fault.

use std::{collections::HashMap, sync::Arc};

use consign::{
    Message,
    broker::QueueSender,
    message::SequenceNumber,
    transport::{Batch, BoxFuture, Capability, SendError, Sender, Unsupported},
};
use parking_lot::Mutex;
use tokio::{sync, task};

use super::Fault;

/// The numbers that messages had when they were sent, by MessageId.
pub(super) type Kept = Arc<Mutex<HashMap<String, SequenceNumber>>>;

#[derive(Clone)]
pub(super) struct WrongSender {
    pub(super) inner: QueueSender,
    pub(super) fault: Fault,
    pub(super) kept: Kept,
    pub(super) one_by_one: Arc<sync::Mutex<()>>,
}

/// Returns why a transport that refuses options refuses the message.
fn refusal(message: &Message) -> Option<Capability> {
    let lives = message.time_to_live().map(|_| Capability::TimeToLive);
    lives.or(message.scheduled_enqueue_time().map(|_| Capability::Scheduling))
}

impl Sender for WrongSender {
    type Send = BoxFuture<Result<(), SendError>>;

    fn send(&self, message: Message) -> Self::Send {
        self.send_batch(Batch::from([message]))
    }

    fn send_batch(&self, batch: Batch) -> Self::Send {
        let refusal = batch.messages().iter().find_map(refusal);
        match (self.fault, refusal) {
            (Fault::Refuses, Some(refused)) => Box::pin(async move { Err(Unsupported::new(refused).into()) }),
            (Fault::RefusesTooLate, Some(refused)) => {
                let bodies = batch.messages().iter().map(|message| Message::new(message.body().clone()));
                let sent = self.inner.send_batch(bodies.collect());
                Box::pin(async move { sent.await.and(Err(Unsupported::new(refused).into())) })
            }
            (Fault::SendsOneByOne, _) => {
                let (inner, one_by_one) = (self.inner.clone(), Arc::clone(&self.one_by_one));
                Box::pin(async move {
                    let _answered = one_by_one.lock().await;
                    task::yield_now().await;
                    inner.send_batch(batch).await
                })
            }
            (Fault::KeepsNumbers, _) => {
                for message in batch.messages() {
                    if let (Some(id), Some(received)) = (message.message_id(), message.received()) {
                        self.kept.lock().insert(id.into(), received.sequence_number);
                    }
                }
                Box::pin(self.inner.send_batch(batch))
            }
            _ => Box::pin(self.inner.send_batch(batch)),
        }
    }
}
