//! A sender with a fault.

use std::{collections::HashMap, sync::Arc};

use consign::{
    Message,
    broker::QueueSender,
    transport::{Batch, BoxFuture, Capabilities, Capability, ErrorKind, SendError, Sender, Unsupported},
};
use parking_lot::Mutex;
use tokio::{sync, task};

use super::Fault;

/// Received messages that were sent, by MessageId.
pub(super) type Kept = Arc<Mutex<HashMap<String, Message>>>;

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
            (Fault::KeepsNumbers | Fault::KeepsSource | Fault::KeepsExtensions, _) => {
                for message in batch.messages() {
                    if let (Some(id), Some(_)) = (message.message_id(), message.received()) {
                        self.kept.lock().insert(id.into(), message.clone());
                    }
                }
                Box::pin(self.inner.send_batch(batch))
            }
            (Fault::LosesAfterDelete, _) => {
                let sent = self.inner.send_batch(batch);
                Box::pin(async move {
                    match sent.await {
                        Err(error) if error.kind() == ErrorKind::EntityNotFound => Ok(()),
                        sent => sent,
                    }
                })
            }
            _ => Box::pin(self.inner.send_batch(batch)),
        }
    }

    fn capabilities(&self) -> Capabilities {
        match self.fault {
            Fault::SenderDeclaresNothing => Capabilities::none(),
            fault => fault.left(self.inner.capabilities()),
        }
    }
}
