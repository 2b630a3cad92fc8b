//! The locks of the messages that clients hold, by lock token.

use std::{collections::HashMap, sync::Arc};

use consign_broker::{Broker, OnDisconnect, QueueLease};
use consign_core::{
    Disposition,
    message::LockToken,
    time::Timestamp,
    transport::{Lease, SettleError},
};
use parking_lot::Mutex;
use rustc_hash::FxBuildHasher;

use crate::links::settle::Settlement;

/// The leases of a server. A client settles by the link that delivered the message, or by token through any other.
#[derive(Default)]
pub(crate) struct Locks {
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    /// The broker chooses the tokens, so that a client cannot make them collide.
    leases: HashMap<LockToken, Lock, FxBuildHasher>,
    /// Locks without a connection, and until when they hold.
    orphans: HashMap<LockToken, Timestamp>,
    /// The number of those at which the ones that have run out are dropped.
    #[cfg(feature = "http")]
    forget_at: usize,
}

/// The least number of locks without a connection at which those that have run out are dropped.
#[cfg(feature = "http")]
const MIN_FORGET: usize = 64;

/// A message that a client has locked.
pub(crate) struct Lock {
    pub(crate) lease: QueueLease,
    /// The key of the entity.
    pub(crate) entity: Arc<str>,
    /// The session of the message, if it was received from one.
    pub(crate) session: Option<Arc<str>>,
    /// Until when it holds, as far as this server knows.
    pub(crate) until: Timestamp,
}

impl Locks {
    pub(crate) fn insert(&self, token: LockToken, lock: Lock) {
        self.held.lock().leases.insert(token, lock);
    }

    /// Holds a lock without a connection, until it is settled or has run out.
    #[cfg(feature = "http")]
    pub(crate) fn insert_without_connection(&self, token: LockToken, lock: Lock, now: Timestamp) {
        let is_full = {
            let mut held = self.held.lock();
            held.orphans.insert(token, lock.until);
            held.leases.insert(token, lock);
            held.orphans.len() >= held.forget_at.max(MIN_FORGET)
        };
        if is_full {
            self.forget_expired(now);
            let mut held = self.held.lock();
            held.forget_at = held.orphans.len() * 2;
        }
    }

    /// Takes a lock, to settle it.
    pub(crate) fn take(&self, token: LockToken) -> Option<Lock> {
        let mut held = self.held.lock();
        if !held.orphans.is_empty() {
            held.orphans.remove(&token);
        }
        held.leases.remove(&token)
    }

    /// Takes a lock, to settle it so. If the broker would refuse that, the lock stays. None if it is unknown.
    pub(crate) fn take_for(&self, token: LockToken, settlement: &Settlement) -> Option<Result<Lock, SettleError>> {
        let mut held = self.held.lock();
        if let Err(error) = settlement.check(&held.leases.get(&token)?.lease) {
            return Some(Err(error));
        }
        held.take(token).map(Ok)
    }

    /// Takes all of these locks of an entity, or none. With a settlement, none if the broker would refuse one of them.
    pub(crate) fn take_all(
        &self,
        tokens: &[LockToken],
        entity: &str,
        session: Option<&str>,
        settlement: Option<&Settlement>,
    ) -> Option<Result<Vec<Lock>, SettleError>> {
        let mut held = self.held.lock();
        held.check_all(tokens, entity, session)?;
        if let Some(settlement) = settlement
            && let Err(error) = held.leases_of(tokens).try_for_each(|lease| settlement.check(lease))
        {
            return Some(Err(error));
        }
        Some(Ok(tokens.iter().filter_map(|token| held.take(*token)).collect()))
    }

    /// Renews all of these locks of an entity. Nothing if one of them is unknown, or the broker refuses one.
    pub(crate) fn renew_all(&self, tokens: &[LockToken], entity: &str) -> Option<Result<Vec<Timestamp>, SettleError>> {
        let mut held = self.held.lock();
        held.check_all(tokens, entity, None)?;
        if let Err(error) = held.leases_of(tokens).try_for_each(QueueLease::check_renewal) {
            return Some(Err(error));
        }
        let renewed = tokens.iter().filter_map(|token| {
            let lock = held.leases.get_mut(token)?;
            // A lease of the embedded broker is renewed when the call returns.
            let renewed = lock.lease.renew().into_inner();
            if let Ok(until) = renewed {
                lock.until = until;
                if let Some(orphan) = held.orphans.get_mut(token) {
                    *orphan = until;
                }
            }
            Some(renewed)
        });
        Some(renewed.collect())
    }

    /// Ends the locks of a connection or link that is gone, as the broker says.
    pub(crate) fn orphan(&self, tokens: impl IntoIterator<Item = LockToken>, broker: &Broker) {
        let quirks = broker.quirks();
        let now = broker.now();
        for token in tokens {
            let mut held = self.held.lock();
            let hold = quirks.on_disconnect == OnDisconnect::HoldUntilExpiry;
            if hold && let Some(lock) = held.leases.get(&token).filter(|lock| lock.session.is_none()) {
                let until = lock.until;
                held.orphans.insert(token, until);
                continue;
            }
            let lock = held.leases.remove(&token);
            drop(held);
            // A lease that is dropped counts. A lock that was lost meanwhile has ended anyhow.
            if let Some(lock) = lock.filter(|_| !quirks.count_on_disconnect) {
                drop(lock.lease.release());
            }
        }
        self.forget_expired(now);
    }

    /// Drops locks without a connection that have run out: the broker has counted them.
    fn forget_expired(&self, now: Timestamp) {
        let mut held = self.held.lock();
        if held.orphans.is_empty() {
            return;
        }
        let Held { leases, orphans, .. } = &mut *held;
        let mut expired = Vec::new();
        orphans.retain(|token, until| {
            let holds = *until > now;
            if !holds {
                expired.extend(leases.remove(token));
            }
            holds
        });
        drop(held);
        drop(expired);
    }

    /// Returns whether a lock is still here, and holds at `now`.
    pub(crate) fn holds(&self, token: LockToken, now: Timestamp) -> bool {
        // The lock of a session is renewed as a whole.
        let holds = |lock: &Lock| {
            let is_lost = || lock.lease.check(&Disposition::Complete).is_err_and(|error| error.is_lock_lost());
            lock.until > now || (lock.session.is_some() && !is_lost())
        };
        self.held.lock().leases.get(&token).is_some_and(holds)
    }
}

impl Held {
    fn check_all(&self, tokens: &[LockToken], entity: &str, session: Option<&str>) -> Option<()> {
        let is_known = |token: &LockToken| {
            let lock = self.leases.get(token)?;
            (*lock.entity == *entity && (session.is_none() || lock.session.as_deref() == session)).then_some(())
        };
        tokens.iter().try_for_each(is_known)
    }

    fn leases_of(&self, tokens: &[LockToken]) -> impl Iterator<Item = &QueueLease> {
        tokens.iter().filter_map(|token| self.leases.get(token)).map(|lock| &lock.lease)
    }

    fn take(&mut self, token: LockToken) -> Option<Lock> {
        self.orphans.remove(&token);
        self.leases.remove(&token)
    }
}
