use std::{
    fmt,
    future::{Ready, ready},
    ops::Range,
    sync::Arc,
    time::Duration,
};

use consign_core::{
    Disposition, Message,
    message::{LockToken, Stored},
    time::Timestamp,
    transport::{CompleteAll, Delivery, ErrorKind, Lease, SettleError},
};

use crate::sabotage::Defect;

use super::{
    Acknowledged,
    engine::{Locked, PlannedSettlement, Refused, Settlement, Source, StoreId},
    shared::Shared,
};

/// The right to settle a message of the embedded broker.
///
/// Errors: [`MessageLockLost`](ErrorKind::MessageLockLost), or [`SessionLockLost`](ErrorKind::SessionLockLost) for a
/// message of a session. [`InvalidOperation`](ErrorKind::InvalidOperation) for a message that was received and
/// deleted, and for dead-lettering a dead letter. The same for the renewal of a message of a session: renew the
/// session instead. [`InvalidArgument`](ErrorKind::InvalidArgument) for a reason or description that is too long.
/// [`EntityDisabled`](ErrorKind::EntityDisabled) while the entity is closed to receivers, except for a release.
pub struct QueueLease {
    shared: Arc<Shared>,
    /// The two halves of the entity's name, apart for a tighter layout.
    serial: u64,
    index: u32,
    key: u32,
    lock_millis: u32,
    /// 0 once it is settled, and from the start if the message was removed when it was received.
    lock: u64,
    in_session: bool,
    /// The message that was removed. The user may own its bytes, so they are dropped where no lock is held.
    removed: Option<Stored>,
}

impl QueueLease {
    pub(super) fn deliver(shared: &Arc<Shared>, store: StoreId, source: Source, locked: Locked) -> Delivery<Self> {
        let Locked { message, key, lock, lock_millis } = locked;
        let in_session = matches!(source, Source::Session { .. });
        let shared = Arc::clone(shared);
        let lease = Self {
            shared,
            serial: store.serial,
            index: store.index,
            key,
            lock_millis,
            lock,
            in_session,
            removed: None,
        };
        Delivery { message, lease }
    }

    pub(super) fn deliver_removed(shared: &Arc<Shared>, store: StoreId, message: Message) -> Delivery<Self> {
        let shared = Arc::clone(shared);
        let lease = Self {
            shared,
            serial: store.serial,
            index: store.index,
            key: 0,
            lock_millis: 0,
            lock: 0,
            in_session: false,
            removed: None,
        };
        Delivery { message, lease }
    }

    #[inline]
    pub(super) fn store(&self) -> StoreId {
        StoreId { serial: self.serial, index: self.index }
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Returns what a transaction does with it.
    pub(super) fn planned(&self, settlement: Settlement) -> Result<PlannedSettlement, SettleError> {
        match self.lock {
            0 => Err(received_and_deleted()),
            lock => {
                let (store, key, in_session) = (self.store(), self.key, self.in_session);
                Ok(PlannedSettlement { store, key, lock, settlement, in_session })
            }
        }
    }

    /// Checks whether a settlement would be accepted now, without settling: a refused settlement uses up the lease.
    ///
    /// # Errors
    /// Those of the settlement.
    pub fn check(&self, disposition: &Disposition) -> Result<(), SettleError> {
        self.check_planned(Settlement::By(disposition.clone()))
    }

    /// Checks whether a renewal would be accepted now, without renewing.
    ///
    /// # Errors
    /// Those of the renewal.
    pub fn check_renewal(&self) -> Result<(), SettleError> {
        self.check_planned(Settlement::Renew)
    }

    fn check_planned(&self, settlement: Settlement) -> Result<(), SettleError> {
        let PlannedSettlement { store, key, lock, settlement, .. } = self.planned(settlement)?;
        self.shared.check_open::<SettleError>()?;
        let now = self.shared.now();
        let checked = self.shared.with(|state| state.engine.check_settlement(now, store, key, lock, &settlement));
        checked.map_err(|refused| self.answer(refused))
    }

    /// Forgets the lock: a transaction has settled the message.
    pub(super) fn forget(mut self) {
        self.lock = 0;
    }

    #[inline]
    fn take_lock(&mut self) -> Result<u64, SettleError> {
        let lock = std::mem::take(&mut self.lock);
        if lock == 0 {
            return Err(received_and_deleted());
        }
        self.shared.check_open::<SettleError>()?;
        Ok(lock)
    }

    #[cold]
    fn abandon(&mut self) {
        let (now, store) = (self.shared.now(), self.store());
        // A lock that is lost already has been counted.
        let _ = self.shared.with(|state| state.engine.settle(now, store, self.key, self.lock, &Disposition::ABANDON));
    }

    fn answer(&self, refused: Refused) -> SettleError {
        match refused {
            Refused::LockLost if self.in_session => SettleError::new(ErrorKind::SessionLockLost),
            refused => refused.into(),
        }
    }
}

impl From<Refused> for SettleError {
    #[cold]
    fn from(refused: Refused) -> Self {
        let invalid = |detail: &'static str| Self::new(ErrorKind::InvalidOperation).with_detail(detail);
        match refused {
            Refused::LockLost => Self::new(ErrorKind::MessageLockLost),
            Refused::SessionLockLost => Self::new(ErrorKind::SessionLockLost),
            Refused::Invalid(error) => (*error).into(),
            Refused::AlreadyDead => invalid("the message is already a dead letter"),
            Refused::InSession => invalid("the session is renewed, not its messages"),
            Refused::StateTooLarge { limit } => {
                Self::new(ErrorKind::MessageSizeExceeded).with_detail(format!("at most {limit} bytes"))
            }
            Refused::Full => Self::new(ErrorKind::QuotaExceeded),
            Refused::Disabled => Self::new(ErrorKind::EntityDisabled),
            Refused::Disk(lack) => Self::new(lack.kind).with_detail(lack.detail),
        }
    }
}

fn received_and_deleted() -> SettleError {
    SettleError::new(ErrorKind::InvalidOperation).with_detail("received and deleted")
}

impl Lease for QueueLease {
    type Settle = Acknowledged<(), SettleError>;
    type Renew = Ready<Result<Timestamp, SettleError>>;

    /// If an argument breaks a rule, the message is dead-lettered already or the entity is disabled, the lease is used up
    /// and the lock holds until it runs out.
    #[inline]
    fn settle(mut self, disposition: Disposition) -> Self::Settle {
        let settled = self.take_lock().and_then(|lock| {
            let now = self.shared.now();
            let store = self.store();
            let settle = self.shared.with_answer(|state| state.engine.settle(now, store, self.key, lock, &disposition));
            settle.map(drop).map_err(|refused| self.answer(refused))
        });
        self.shared.acknowledge(settled)
    }

    fn complete_all(batch: &mut Vec<Self>) -> CompleteAll<Self::Settle> {
        let mut all = CompleteAll::done();
        // Messages of one broker, whose next answer is that to all of them.
        let mut open: Option<(Arc<Shared>, Range<usize>)> = None;
        let wait = |all: &mut CompleteAll<Self::Settle>, (shared, messages): (Arc<Shared>, Range<usize>)| {
            if let Some(answer) = shared.unanswered() {
                all.wait_for(messages, answer);
            }
        };
        let mut done = 0;
        // Nearly always all are of one entity.
        while let Some(first) = batch.get(done) {
            let (shared, store) = (Arc::clone(&first.shared), first.store());
            let now = shared.now();
            let before = done;
            done = shared.with_answer(|state| {
                let mut entity = state.engine.completing(now, store);
                for (nth, lease) in batch[before..].iter_mut().enumerate() {
                    if lease.serial != store.serial || !Arc::ptr_eq(&lease.shared, &shared) {
                        return before + nth;
                    }
                    let completed = lease
                        .take_lock()
                        .and_then(|lock| entity.complete(lease.key, lock).map_err(|refused| lease.answer(refused)));
                    match completed {
                        Ok(removed) => lease.removed = Some(removed),
                        Err(failure) => all.fail(before + nth, failure),
                    }
                }
                batch.len()
            });
            if shared.answers_at_once() {
                continue;
            }
            match &mut open {
                Some((last, messages)) if Arc::ptr_eq(last, &shared) => messages.end = done,
                _ => {
                    if let Some(earlier) = open.replace((shared, before..done)) {
                        wait(&mut all, earlier);
                    }
                }
            }
        }
        if let Some(last) = open {
            wait(&mut all, last);
        }
        batch.clear();
        all
    }

    #[inline]
    fn completes_in_batches(&self) -> bool {
        true
    }

    fn release(mut self) -> Self::Settle {
        // Nothing is lost with it: after a crash the message is free, or stays locked until the end that is on the disk.
        Acknowledged::ready(self.take_lock().and_then(|lock| {
            let now = self.shared.now();
            let released = self.shared.with(|state| state.engine.release(now, self.store(), self.key, lock));
            released.map_err(|refused| self.answer(refused))
        }))
    }

    fn renew(&self) -> Self::Renew {
        if self.lock == 0 {
            return ready(Err(received_and_deleted()));
        }
        let renewed = self.shared.check_open().and_then(|()| {
            let now = self.shared.now();
            let renewed = self.shared.with(|state| state.engine.renew(now, self.store(), self.key, self.lock));
            renewed.map_err(|refused| self.answer(refused))
        });
        ready(renewed)
    }

    fn lock_token(&self) -> Option<LockToken> {
        (self.lock != 0).then(|| self.shared.lock_token(self.lock))
    }

    fn lock_duration(&self) -> Option<Duration> {
        (self.lock != 0).then(|| Duration::from_millis(u64::from(self.lock_millis)))
    }
}

/// Abandons what was not settled.
impl Drop for QueueLease {
    #[inline]
    fn drop(&mut self) {
        if self.lock != 0 && !Defect::DropForgets.is_there() {
            self.abandon();
        }
    }
}

impl fmt::Debug for QueueLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueueLease").field("lock_token", &self.lock_token()).finish_non_exhaustive()
    }
}
