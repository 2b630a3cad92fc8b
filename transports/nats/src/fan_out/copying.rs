//! The messages of a topic that a fan-out has received, and their copies.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use async_nats::Subject;
use bytes::Bytes;
use tokio::time::{Instant, sleep};

use super::{ACK_WAIT, Running};
use crate::{connection::Inner, error::Fault, read::Facts, rules::Stored as Rules};

/// How soon a fan-out checks again whether it has received all its messages.
const LOOK: Duration = Duration::from_millis(10);

/// The messages by their numbers in the topic.
pub(super) struct Hand {
    running: Arc<Running>,
    messages: BTreeMap<u64, (async_nats::Message, Facts, Subject)>,
    rules: Option<Rules>,
    /// The next number of the consumer, if no other task gets anything.
    next: u64,
    /// Since when another task may have received older messages.
    in_doubt: Option<Instant>,
}

impl Hand {
    pub(super) fn new(running: Arc<Running>) -> Self {
        Self { running, messages: BTreeMap::new(), rules: None, next: 0, in_doubt: Some(Instant::now()) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }

    pub(super) fn take(&mut self, message: async_nats::Message, facts: Facts, reply: Subject) {
        if facts.delivered != self.next {
            self.in_doubt.get_or_insert_with(Instant::now);
        }
        self.next = facts.delivered + 1;
        self.messages.insert(facts.number, (message, facts, reply));
    }

    /// Returns whether all messages in transit are here. Messages that a dead task has left are redelivered here when their
    /// time is over, and are copied before younger ones.
    pub(super) async fn is_in_order(&mut self) -> Result<bool, Fault> {
        let Some(since) = self.in_doubt else { return Ok(true) };
        let on_its_way = self.running.progress().await?.num_ack_pending;
        if on_its_way > self.messages.len() as u64 && since.elapsed() < ACK_WAIT * 2 {
            sleep(LOOK).await;
            return Ok(false);
        }
        self.in_doubt = None;
        Ok(true)
    }

    /// Stores all copies, and then acknowledges. After an error all of it is repeated, and copies that are stored stay
    /// unchanged.
    pub(super) async fn copy(&mut self) -> Result<(), Fault> {
        let Running { inner, target, topic, .. } = &*self.running;
        let rules = Rules::read(inner, &target.beside, self.rules.as_ref()).await?;
        let copies = self.messages.values().flat_map(|(message, facts, _)| {
            target.copies_of(&rules.rules, message, *facts, topic).into_iter().map(|copy| target.store(inner, copy))
        });
        let stored = Inner::in_order(copies).await;
        self.rules = Some(rules);
        stored.into_iter().collect::<Result<(), Fault>>()?;
        for (_, _, reply) in std::mem::take(&mut self.messages).into_values() {
            // A lost acknowledgement makes the same copies again, which exist.
            let _ = inner.client.publish(reply, Bytes::from_static(b"+ACK")).await;
        }
        Ok(())
    }
}
