//! Receiving, by a receiver for each entity or by one of the case.

use std::time::Duration;

use consign::{
    message::{EntityPath, SequenceNumber},
    transport::{Delivery, DynLease, DynReceiver, ReceiveDeferred, ReceiveMode, Receiver, ReceiverExt, Transport},
};

use super::Bench;
use crate::Failure;

impl Bench<'_> {
    pub(crate) async fn receiver(&self, from: &EntityPath) -> Result<DynReceiver, Failure> {
        Ok(self.transport.receiver(from, ReceiveMode::PeekLock).await?)
    }

    /// Receives up to `max` available messages; none after [`Timing::receive_wait`].
    pub(crate) async fn try_receive(&self, from: &EntityPath, max: usize) -> Result<Vec<Delivery<DynLease>>, Failure> {
        self.receive_within(self.timing.receive_wait, from, max).await
    }

    pub(crate) async fn receive_within(
        &self,
        wait: Duration,
        from: &EntityPath,
        max: usize,
    ) -> Result<Vec<Delivery<DynLease>>, Failure> {
        let mut receivers = self.receivers.lock().await;
        let key = from.to_string();
        if !receivers.contains_key(&key) {
            receivers.insert(key.clone(), self.receiver(from).await?);
        }
        let Some(receiver) = receivers.get_mut(&key) else { return Ok(Vec::new()) };
        let received = receive_batch_within(wait, receiver, max).await;
        if received.is_err() {
            receivers.remove(&key);
        }
        received
    }

    pub(crate) async fn try_receive_by<R: Receiver>(
        &self,
        receiver: &mut R,
        max: usize,
    ) -> Result<Vec<Delivery<R::Lease>>, Failure> {
        receive_batch_within(self.timing.receive_wait, receiver, max).await
    }

    /// Receives the next message, which must arrive within [`Timing::arrival`].
    pub(crate) async fn receive(&self, from: &EntityPath) -> Result<Delivery<DynLease>, Failure> {
        let received = self.receive_within(self.timing.arrival, from, 1).await?.pop();
        received.ok_or_else(|| Failure::behaviour(format!("{from} has no message to give")))
    }

    pub(crate) async fn receive_by<R: Receiver>(&self, receiver: &mut R) -> Result<Delivery<R::Lease>, Failure> {
        let received = receive_batch_within(self.timing.arrival, receiver, 1).await?.pop();
        received.ok_or_else(|| Failure::behaviour("the receiver has no message to give"))
    }

    /// Receives the next `count` messages, all of them locked.
    pub(crate) async fn receive_each(
        &self,
        from: &EntityPath,
        count: usize,
    ) -> Result<Vec<Delivery<DynLease>>, Failure> {
        let mut held = Vec::new();
        while held.len() < count {
            held.push(self.receive(from).await?);
        }
        Ok(held)
    }

    /// Receives the next message of the dead-letter sub-queue, which must exist.
    pub(crate) async fn receive_dead(&self, of: &EntityPath) -> Result<Delivery<DynLease>, Failure> {
        self.receive(&of.dead_letter()).await
    }

    /// Locks a deferred message, which must exist.
    pub(crate) async fn fetch(&self, from: &EntityPath, number: SequenceNumber) -> Result<Delivery<DynLease>, Failure> {
        let mut fetched = self.transport.receive_deferred(from, &[number]).await?;
        match (fetched.pop(), fetched.len()) {
            (Some(delivery), 0) => Ok(delivery),
            (_, more) => {
                Err(Failure::behaviour(format!("one number brought {more} messages back, and another or none")))
            }
        }
    }
}

pub(super) async fn receive_batch_within<R: Receiver>(
    wait: Duration,
    receiver: &mut R,
    max: usize,
) -> Result<Vec<Delivery<R::Lease>>, Failure> {
    match tokio::time::timeout(wait, receiver.receive_batch(max)).await {
        Ok(received) => Ok(received?),
        Err(_) => Ok(Vec::new()),
    }
}
