//! Messages that a case expects, and completes or peeks at.

use std::sync::atomic::{AtomicUsize, Ordering};

use consign::{
    Message,
    message::{EntityPath, SequenceNumber},
    transport::{PeekMessages, Receiver},
};

use super::{Bench, message::text, receiving::receive_batch_within};
use crate::{Failure, Verdict, failure::ensure_eq};

impl Bench<'_> {
    /// Checks that there is no message to receive.
    pub(crate) async fn nothing(&self, from: &EntityPath) -> Verdict {
        match self.try_receive(from, 1).await?.pop() {
            None => Ok(()),
            Some(delivery) => {
                let why = format!("{from} should have nothing to give, and gives {:?}", text(&delivery.message));
                Err(Failure::behaviour(why))
            }
        }
    }

    /// Checks that neither the entity nor its dead-letter sub-queue has a message to receive.
    pub(crate) async fn gone(&self, from: &EntityPath) -> Verdict {
        self.nothing(from).await?;
        self.nothing(&from.dead_letter()).await
    }

    /// Receives and completes the next message, which must exist.
    pub(crate) async fn take(&self, from: &EntityPath) -> Result<Message, Failure> {
        let delivery = self.receive(from).await?;
        let message = delivery.message.clone();
        delivery.complete().await?;
        Ok(message)
    }

    /// Checks that the messages with these bodies are available, in this order, and completes them.
    pub(crate) async fn expect<const N: usize>(&self, from: &EntityPath, bodies: [&str; N]) -> Verdict {
        let messages = self.drain_messages(N, from).await?;
        let found: Vec<String> = messages.iter().map(text).collect();
        ensure_eq!(found, bodies, "{from} gives {found:?}, and not {bodies:?}");
        Ok(())
    }

    /// Receives and completes all available messages, and returns the bodies. The first one must arrive within
    /// [`Timing::arrival`].
    pub(crate) async fn drain(&self, from: &EntityPath) -> Result<Vec<String>, Failure> {
        self.drain_count(1, from).await
    }

    /// As `drain`, where each of the first `count` has [`Timing::arrival`].
    pub(crate) async fn drain_count(&self, count: usize, from: &EntityPath) -> Result<Vec<String>, Failure> {
        Ok(self.drain_messages(count, from).await?.iter().map(text).collect())
    }

    /// Receives and completes all available messages. Each of the first `count` has [`Timing::arrival`].
    pub(crate) async fn drain_messages(&self, count: usize, from: &EntityPath) -> Result<Vec<Message>, Failure> {
        let mut messages = Vec::new();
        loop {
            let wait = if messages.len() < count { self.timing.arrival } else { self.timing.receive_wait };
            let Some(delivery) = self.receive_within(wait, from, 1).await?.pop() else { return Ok(messages) };
            messages.push(delivery.message.clone());
            delivery.complete().await?;
        }
    }

    /// Receives and completes all messages of a session, and returns the bodies. The first one must arrive within
    /// [`Timing::arrival`].
    pub(crate) async fn drain_by<R: Receiver>(&self, receiver: &mut R) -> Result<Vec<String>, Failure> {
        self.drain_by_count(1, receiver).await
    }

    /// As `drain_by`, where each of the first `count` has [`Timing::arrival`].
    pub(crate) async fn drain_by_count<R: Receiver>(
        &self,
        count: usize,
        receiver: &mut R,
    ) -> Result<Vec<String>, Failure> {
        self.drain_shared(count, receiver, &AtomicUsize::new(0)).await
    }

    /// As `drain_by_count`, by one of several receivers that have `count` messages together, and add up what they got.
    pub(crate) async fn drain_shared<R: Receiver>(
        &self,
        count: usize,
        receiver: &mut R,
        drained: &AtomicUsize,
    ) -> Result<Vec<String>, Failure> {
        let mut bodies = Vec::new();
        loop {
            let before = drained.load(Ordering::Relaxed);
            let wait = if before < count { self.timing.arrival } else { self.timing.receive_wait };
            if let Some(delivery) = receive_batch_within(wait, receiver, 1).await?.pop() {
                drained.fetch_add(1, Ordering::Relaxed);
                bodies.push(text(&delivery.message));
                delivery.complete().await?;
                continue;
            }
            // While another one got some, those that are left may come here.
            let now = drained.load(Ordering::Relaxed);
            if now == before || now >= count {
                return Ok(bodies);
            }
        }
    }

    /// Returns everything that a peek shows, in its order.
    pub(crate) async fn peek(&self, at: &EntityPath) -> Result<Vec<Message>, Failure> {
        Ok(self.transport.peek(at, SequenceNumber::new(0), 1_000).await?)
    }
}
