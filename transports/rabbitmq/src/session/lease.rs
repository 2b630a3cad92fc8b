//! The right to settle one delivery of a session.

use std::{sync::Arc, time::Duration};

use consign_core::{
    Disposition,
    message::LockToken,
    settlement::Changes,
    transport::{Capability, ErrorKind, SettleError, Unsupported},
};
use tokio::sync::oneshot;

use super::{
    error::{lost, of_session},
    slot::Slot,
    work::{Job, Work},
};
use crate::receiver::{RabbitMqSettle, check};

pub(crate) struct SessionLock {
    slot: Arc<Slot>,
    id: Arc<str>,
    hold: u64,
    tag: u64,
    is_used: bool,
}

impl SessionLock {
    pub(super) fn new(slot: Arc<Slot>, id: Arc<str>, hold: u64, tag: u64) -> Self {
        Self { slot, id, hold, tag, is_used: false }
    }

    pub(crate) fn settle(&mut self, disposition: Disposition) -> RabbitMqSettle {
        self.is_used = true;
        let Some(held) = self.slot.take(&self.id, self.hold, self.tag) else { return RabbitMqSettle::err(lost()) };
        match disposition {
            Disposition::Complete => {
                self.slot.state().ledger.settled(&self.id, held.facts.number);
                RabbitMqSettle::writing(held.ticket.ack(), self.slot.client.link.deadline(), of_session)
            }
            Disposition::Abandon(changes) => {
                let (done, answer) = oneshot::channel();
                self.slot.fail(&mut self.slot.state(), &self.id, held, changes, Some(done));
                RabbitMqSettle::left(answer)
            }
            Disposition::DeadLetter(dead_letter) => {
                if let Err(error) = check(&dead_letter) {
                    self.slot.fail(&mut self.slot.state(), &self.id, held, Changes::NONE, None);
                    return RabbitMqSettle::err(error);
                }
                let (done, answer) = oneshot::channel();
                let work = Work::DeadLetter(held, dead_letter);
                self.slot.state().jobs.push(Job { id: Arc::clone(&self.id), work, done: Some(done) });
                self.slot.changed.notify_one();
                RabbitMqSettle::left(answer)
            }
            Disposition::Defer(_) => {
                self.slot.fail(&mut self.slot.state(), &self.id, held, Changes::NONE, None);
                RabbitMqSettle::err(Unsupported::new(Capability::Deferral).into())
            }
        }
    }

    /// Releases the message: it is the next one again.
    pub(crate) fn release(&mut self) -> RabbitMqSettle {
        self.is_used = true;
        let Some(held) = self.slot.take(&self.id, self.hold, self.tag) else { return RabbitMqSettle::err(lost()) };
        self.slot.state().put_back(&self.id, held);
        RabbitMqSettle::done()
    }

    /// Returns the lock duration of the session.
    pub(crate) fn lock_duration(&self) -> Duration {
        self.slot.source.settings.lock_duration
    }

    /// Returns the reason why a message is not renewed.
    pub(crate) fn renewal() -> SettleError {
        SettleError::new(ErrorKind::InvalidOperation).with_detail("the session is renewed, and not its messages")
    }

    pub(crate) fn lock_token(&self) -> LockToken {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.slot.client.salt.to_be_bytes());
        let place = Arc::as_ptr(&self.slot).addr() as u64;
        let key = self.tag ^ self.hold.rotate_left(48);
        bytes[8..].copy_from_slice(&(place.rotate_left(24) ^ key).to_be_bytes());
        LockToken::from_bytes(bytes)
    }
}

/// A dropped delivery has failed, unless its session was given up before.
impl Drop for SessionLock {
    fn drop(&mut self) {
        if !self.is_used
            && let Some(held) = self.slot.take(&self.id, self.hold, self.tag)
        {
            self.slot.fail(&mut self.slot.state(), &self.id, held, Changes::NONE, None);
        }
    }
}
