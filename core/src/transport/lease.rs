use std::{fmt, future::Future, time::Duration};

use super::SettleError;
use crate::{
    Disposition, Message,
    message::LockToken,
    settlement::{Changes, DeadLetter},
    time::Timestamp,
};

/// The right to settle one delivery. It is not `Clone`, and settling consumes it, so a message is settled at most once.
/// Dropping it abandons the message: the failed delivery counts.
///
/// It stays outside the stack: a layer may drop, clone or buffer a [`Message`], and never the right to settle it.
///
/// # Examples
///
/// The lease of a message that was removed when it was received. There is nothing to settle, and nothing to do when it is dropped:
///
/// ```
/// use std::{
///     future::{Ready, ready},
///     time::Duration,
/// };
///
/// use consign::{
///     Disposition,
///     time::Timestamp,
///     transport::{ErrorKind, Lease, SettleError},
/// };
///
/// struct Removed;
///
/// fn removed<T>() -> Ready<Result<T, SettleError>> {
///     ready(Err(SettleError::new(ErrorKind::InvalidOperation).with_detail("received and deleted")))
/// }
///
/// impl Lease for Removed {
///     type Settle = Ready<Result<(), SettleError>>;
///     type Renew = Ready<Result<Timestamp, SettleError>>;
///
///     fn settle(self, _: Disposition) -> Self::Settle {
///         removed()
///     }
///
///     fn release(self) -> Self::Settle {
///         removed()
///     }
///
///     fn renew(&self) -> Self::Renew {
///         removed()
///     }
///
///     fn lock_duration(&self) -> Option<Duration> {
///         None
///     }
/// }
///
/// assert!(!Removed.must_settle());
/// ```
pub trait Lease: Send + 'static {
    /// The future of [`settle`](Self::settle) and [`release`](Self::release). It does not borrow the receiver.
    type Settle: Future<Output = Result<(), SettleError>> + Send + 'static;
    /// The future of [`renew`](Self::renew).
    type Renew: Future<Output = Result<Timestamp, SettleError>> + Send + 'static;

    /// Whether [`complete_together`](Self::complete_together) is implemented. A consumer then gathers the messages that
    /// quick handlers have done with, and completes them in one step before it receives again or waits.
    const COMPLETES_TOGETHER: bool = false;

    /// Settles the delivery. It does not read a [delay](Changes::delay).
    ///
    /// # Errors
    ///
    /// The future returns [`MessageLockLost`](super::ErrorKind::MessageLockLost) if the message is not locked any more, and
    /// [`InvalidOperation`](super::ErrorKind::InvalidOperation) for one that was removed when it was received. The lease is used
    /// up in either case.
    ///
    /// # Cancel safety
    ///
    /// The future must be driven to its end; whether a dropped one had its effect is unknown.
    fn settle(self, disposition: Disposition) -> Self::Settle;

    /// Completes all of these at once, and returns the errors of those that failed. The leases are of one receiver, and
    /// are used up: dropping them afterwards does not abandon anything. It is for transports that complete within the
    /// call, and is called only if [`COMPLETES_TOGETHER`](Self::COMPLETES_TOGETHER) is true.
    ///
    /// The future is that of the others, where a broker answers later than it acts, as one on a disk does. If it succeeds,
    /// so do those of all earlier calls.
    fn complete_together(batch: &mut [Self], failures: &mut Vec<SettleError>) -> Option<Self::Settle>
    where
        Self: Sized,
    {
        let _ = (batch, failures);
        None
    }

    /// Releases the lock without counting the delivery: for messages that no handler has seen.
    ///
    /// # Errors
    ///
    /// As [`settle`](Self::settle).
    ///
    /// # Cancel safety
    ///
    /// It begins when it is called: where nothing can wait, as in a drop, the future is dropped.
    fn release(self) -> Self::Settle;

    /// Abandons the message so that it is delivered again after `delay` and not before: the failed delivery counts, and after
    /// the last one the message is dead-lettered at once. The message keeps its number, its MessageId and, once it is due, its
    /// place, as far as an abandoned message of the transport does.
    ///
    /// `Err` gives the lease back, and nothing has happened: the transport cannot do it for this message. A transport
    /// that can do this reports [`Capability::DelayedRetry`](super::Capability::DelayedRetry), except for messages of
    /// sessions, which later ones would pass.
    ///
    /// # Errors
    ///
    /// The lease, if the transport has no delays.
    fn abandon_after(self, changes: Changes, delay: Duration) -> Result<Self::Settle, Self>
    where
        Self: Sized,
    {
        let _ = (changes, delay);
        Err(self)
    }

    /// Gives the lock up so that the message is delivered again after `delay` and not before, without counting the delivery;
    /// otherwise as [`abandon_after`](Self::abandon_after).
    ///
    /// # Errors
    ///
    /// The lease, if the transport has no delays.
    fn release_after(self, delay: Duration) -> Result<Self::Settle, Self>
    where
        Self: Sized,
    {
        let _ = delay;
        Err(self)
    }

    /// Extends the lock to the full lock duration from now, and returns until when it holds.
    ///
    /// # Errors
    ///
    /// The future returns [`MessageLockLost`](super::ErrorKind::MessageLockLost) if the lock is lost, and
    /// [`NotSupported`](super::ErrorKind::NotSupported) for a lock that does not run out.
    fn renew(&self) -> Self::Renew;

    /// Returns how long the lock holds from the delivery or the last renewal. `None` without a lock that runs out: because the
    /// message was removed when it was received, or because the broker locks it until it is settled.
    fn lock_duration(&self) -> Option<Duration>;

    /// Returns whether the delivery has to be settled. `false` for a message that was removed when it was received: settling
    /// it is an invalid operation.
    ///
    /// The default is that a delivery with a [lock duration](Self::lock_duration) has to be settled. A lease whose lock does
    /// not run out overrides it.
    fn must_settle(&self) -> bool {
        self.lock_duration().is_some()
    }

    /// Returns the name of the lock, where the broker has one that the application may see.
    fn lock_token(&self) -> Option<LockToken> {
        None
    }
}

/// A received message with the right to settle it. Dropped unsettled it is abandoned.
#[must_use = "a delivery that is dropped is abandoned, and the failed delivery counts"]
pub struct Delivery<L> {
    /// The message.
    pub message: Message,
    /// The right to settle it.
    pub lease: L,
}

impl<L: Lease> Delivery<L> {
    /// Settles by a disposition. The [delay](Changes::delay) of an abandoned message has its effect where the transport can
    /// [delay](Lease::abandon_after) it; elsewhere the message is abandoned at once.
    pub fn settle(self, disposition: Disposition) -> L::Settle {
        let lease = self.lease;
        match disposition {
            Disposition::Abandon(changes) if changes.delay().is_some() => {
                let delay = changes.delay().unwrap_or_default();
                match lease.abandon_after(changes.clone(), delay) {
                    Ok(settle) => settle,
                    Err(lease) => lease.settle(Disposition::Abandon(changes)),
                }
            }
            disposition => lease.settle(disposition),
        }
    }

    /// Gives the message back for `delay`; the failed delivery counts.
    ///
    /// # Errors
    ///
    /// The delivery, if the transport [cannot delay](Lease::abandon_after) it.
    pub fn abandon_after(self, delay: Duration) -> Result<L::Settle, Self> {
        let Self { message, lease } = self;
        lease.abandon_after(Changes::NONE, delay).map_err(|lease| Self { message, lease })
    }

    /// Removes the message.
    pub fn complete(self) -> L::Settle {
        self.lease.settle(Disposition::Complete)
    }

    /// Gives the message back; the failed delivery counts.
    pub fn abandon(self) -> L::Settle {
        self.lease.settle(Disposition::ABANDON)
    }

    /// Sets the message aside; only its sequence number brings it back.
    pub fn defer(self) -> L::Settle {
        self.lease.settle(Disposition::Defer(Changes::NONE))
    }

    /// Moves the message to the dead-letter sub-queue.
    pub fn dead_letter(self, dead_letter: DeadLetter) -> L::Settle {
        self.lease.settle(Disposition::DeadLetter(Box::new(dead_letter)))
    }
}

impl<L> fmt::Debug for Delivery<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delivery").field("message", &self.message).finish_non_exhaustive()
    }
}
