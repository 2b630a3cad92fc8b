use std::{
    fmt,
    future::{Ready, ready},
    sync::Arc,
    time::Duration,
};

use super::{
    engine::{Locked, Refused},
    queue::Shared,
};
use crate::{
    Disposition, Message,
    message::LockToken,
    time::Timestamp,
    transport::{Delivery, ErrorKind, Lease, SettleError},
};

/// The right to settle a message of the embedded broker.
pub struct QueueLease {
    shared: Arc<Shared>,
    key: u32,
    /// 0 once it is settled, and from the start if the message was removed when it was received.
    lock: u64,
    lock_millis: u32,
}

impl QueueLease {
    pub(super) fn deliver(shared: &Arc<Shared>, locked: Locked) -> Delivery<Self> {
        let Locked { message, key, lock, lock_duration } = locked;
        let lock_millis = u32::try_from(lock_duration.as_millis()).unwrap_or(u32::MAX);
        Delivery { message, lease: Self { shared: Arc::clone(shared), key, lock, lock_millis } }
    }

    pub(super) fn deliver_removed(shared: &Arc<Shared>, message: Message) -> Delivery<Self> {
        let lease = Self { shared: Arc::clone(shared), key: 0, lock: 0, lock_millis: 0 };
        Delivery { message, lease }
    }

    #[inline]
    fn take_lock(&mut self) -> Result<u64, SettleError> {
        match std::mem::take(&mut self.lock) {
            0 => Err(received_and_deleted()),
            lock => Ok(lock),
        }
    }

    fn answer(&self, refused: Refused) -> SettleError {
        match refused {
            Refused::LockLost => SettleError::new(ErrorKind::MessageLockLost),
            Refused::Invalid(error) => error.into(),
            Refused::AlreadyDead => {
                let detail = format!("{} is a dead-letter sub-queue", self.shared.path().dead_letter());
                SettleError::new(ErrorKind::InvalidOperation).with_detail(detail)
            }
        }
    }
}

fn received_and_deleted() -> SettleError {
    SettleError::new(ErrorKind::InvalidOperation).with_detail("received and deleted")
}

impl Lease for QueueLease {
    type Settle = Ready<Result<(), SettleError>>;
    type Renew = Ready<Result<Timestamp, SettleError>>;

    /// If an argument breaks a rule or the message is dead-lettered already, the lease is used up and the lock holds
    /// until it runs out.
    #[inline]
    fn settle(mut self, disposition: Disposition) -> Self::Settle {
        ready(self.take_lock().and_then(|lock| {
            let now = self.shared.now();
            let settled = self.shared.with(|state| state.engine.settle(now, self.key, lock, disposition));
            settled.map(drop).map_err(|refused| self.answer(refused))
        }))
    }

    fn release(mut self) -> Self::Settle {
        ready(self.take_lock().and_then(|lock| {
            let now = self.shared.now();
            let released = self.shared.with(|state| state.engine.release(now, self.key, lock));
            released.map_err(|refused| self.answer(refused))
        }))
    }

    fn renew(&self) -> Self::Renew {
        if self.lock == 0 {
            return ready(Err(received_and_deleted()));
        }
        let now = self.shared.now();
        let renewed = self.shared.with(|state| state.engine.renew(now, self.key, self.lock));
        ready(renewed.map_err(|refused| self.answer(refused)))
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
        if self.lock != 0 {
            let now = self.shared.now();
            // A lock that is lost already has been counted.
            let _ = self.shared.with(|state| state.engine.settle(now, self.key, self.lock, Disposition::ABANDON));
        }
    }
}

impl fmt::Debug for QueueLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueueLease").field("queue", self.shared.path()).finish_non_exhaustive()
    }
}
