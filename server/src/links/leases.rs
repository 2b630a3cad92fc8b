//! The leases of deliveries: a link has them until they are settled, and the connection those whose settlement was refused.

use consign_amqp::engine::{DeliveryId, LinkId};
use consign_broker::QueueLease;
use consign_core::{
    message::LockToken,
    transport::{ErrorKind, Lease},
};

use super::{Kind, Link, settle::Settlement};
use crate::{connection::Client, errors::Failure, locks::Lock};

impl Client {
    /// Takes the lease of a delivery from the link, to settle it so. If the broker would refuse that, the lock is kept: the client
    /// may settle it by its token.
    pub(super) fn take_lease(
        &mut self,
        link: LinkId,
        id: DeliveryId,
        settlement: &Settlement,
    ) -> Result<QueueLease, Failure> {
        let (token, in_session) = self.take_token(link, id)?;
        match self.shared.locks.take_for(token, settlement) {
            Some(Ok(lock)) => Ok(lock.lease),
            Some(Err(error)) => {
                if error.is_lock_lost() {
                    drop(self.shared.locks.take(token));
                } else {
                    self.keep_fetched(token);
                }
                Err(error.into())
            }
            // It may have been settled by its token, through another link.
            None => Err(lock_lost(in_session)),
        }
    }

    /// Takes the lock of a delivery from the link.
    pub(crate) fn take_lock(&mut self, link: LinkId, id: DeliveryId) -> Result<(LockToken, Lock), Failure> {
        let (token, in_session) = self.take_token(link, id)?;
        let lock = self.shared.locks.take(token);
        lock.map(|lock| (token, lock)).ok_or_else(|| lock_lost(in_session))
    }

    /// Takes the lock token of a delivery from the link, and whether it is of a session.
    fn take_token(&mut self, link: LinkId, id: DeliveryId) -> Result<(LockToken, bool), Failure> {
        let Some(Link { kind: Kind::Outgoing(outgoing), .. }) = self.links.get_mut(&link) else {
            return Err(lock_lost(false));
        };
        let in_session = outgoing.session.is_some();
        let token = outgoing.unsettled.remove(&id);
        token.map(|token| (token, in_session)).ok_or_else(|| lock_lost(in_session))
    }

    /// Takes a delivery from the link whose settlement is refused before its lease is taken. Its lock is kept.
    pub(crate) fn set_aside(&mut self, link: LinkId, id: DeliveryId) {
        if let Ok((token, _)) = self.take_token(link, id) {
            self.keep_fetched(token);
        }
    }

    /// Keeps a lock that no link of the connection has.
    pub(crate) fn hold(&mut self, token: LockToken, lock: Lock) {
        self.shared.locks.insert(token, lock);
        self.keep_fetched(token);
    }

    /// Notes that no link of the connection has a lock. If there are too many of these, the lock ends.
    fn keep_fetched(&mut self, token: LockToken) {
        if self.fetched.len() >= self.shared.limits.max_unsettled {
            self.forget_fetched();
        }
        if self.fetched.len() < self.shared.limits.max_unsettled {
            self.fetched.insert(token);
        } else if let Some(lock) = self.shared.locks.take(token) {
            drop(lock.lease.release());
        }
    }

    /// Forgets locks without a link that have ended.
    pub(crate) fn forget_fetched(&mut self) {
        let (now, locks) = (self.shared.broker.now(), &self.shared.locks);
        self.fetched.retain(|token| {
            let holds = locks.holds(*token, now);
            if !holds {
                drop(locks.take(*token));
            }
            holds
        });
    }
}

pub(crate) fn lock_lost(in_session: bool) -> Failure {
    if in_session {
        return Failure::new(ErrorKind::SessionLockLost, "The session lock has expired, or was released.");
    }
    Failure::new(
        ErrorKind::MessageLockLost,
        "The lock supplied is invalid. Either the lock expired, or the message has already been removed from the queue.",
    )
}
