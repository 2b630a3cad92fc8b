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
    transport::{Delivery, ErrorKind, Lease, SettleError},
};

/// The right to settle a message of the embedded broker.
pub struct QueueLease {
    shared: Arc<Shared>,
    key: u32,
    /// 0 once it is settled, and from the start if the message was removed when it was received.
    token: u128,
    lock_duration: Duration,
}

impl QueueLease {
    pub(super) fn deliver(shared: &Arc<Shared>, locked: Locked) -> Delivery<Self> {
        let Locked { message, key, token, lock_duration } = locked;
        Delivery { message, lease: Self { shared: Arc::clone(shared), key, token, lock_duration } }
    }

    pub(super) fn deliver_removed(shared: &Arc<Shared>, message: Message) -> Delivery<Self> {
        let lease = Self { shared: Arc::clone(shared), key: 0, token: 0, lock_duration: Duration::ZERO };
        Delivery { message, lease }
    }

    #[inline]
    fn take_token(&mut self) -> Result<u128, SettleError> {
        match std::mem::take(&mut self.token) {
            0 => Err(SettleError::new(ErrorKind::InvalidOperation).with_detail("received and deleted")),
            token => Ok(token),
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

impl Lease for QueueLease {
    type Settle = Ready<Result<(), SettleError>>;
    type Renew = Ready<Result<(), SettleError>>;

    /// If an argument breaks a rule or the message is dead-lettered already, the lease is used up and the lock holds
    /// until it runs out.
    #[inline]
    fn settle(mut self, disposition: Disposition) -> Self::Settle {
        ready(self.take_token().and_then(|token| {
            let now = self.shared.now();
            let settled = self.shared.with(|state| state.engine.settle(now, self.key, token, disposition));
            settled.map_err(|refused| self.answer(refused))
        }))
    }

    fn release(mut self) -> Self::Settle {
        ready(self.take_token().and_then(|token| {
            let now = self.shared.now();
            let released = self.shared.with(|state| state.engine.release(now, self.key, token));
            released.map_err(|refused| self.answer(refused))
        }))
    }

    fn renew(&self) -> Self::Renew {
        let now = self.shared.now();
        let renewed = self.shared.with(|state| state.engine.renew(now, self.key, self.token));
        ready(renewed.map_err(|refused| self.answer(refused)))
    }

    fn lock_duration(&self) -> Option<Duration> {
        (self.token != 0).then_some(self.lock_duration)
    }
}

/// Abandons what was not settled.
impl Drop for QueueLease {
    #[inline]
    fn drop(&mut self) {
        if self.token != 0 {
            let now = self.shared.now();
            // A lock that is lost already has been counted.
            let _ = self.shared.with(|state| state.engine.settle(now, self.key, self.token, Disposition::ABANDON));
        }
    }
}

impl fmt::Debug for QueueLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueueLease").field("queue", self.shared.path()).finish_non_exhaustive()
    }
}
