use std::{fmt, future::Future, time::Duration};

use super::{CompleteAll, SettleError, log_limit};
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

    /// Settles the delivery. It does not read a [delay](Changes::delay).
    ///
    /// # Errors
    ///
    /// The future returns [`MessageLockLost`](super::ErrorKind::MessageLockLost) if the message is not locked any more, and
    /// [`InvalidOperation`](super::ErrorKind::InvalidOperation) for one that was removed when it was received. The lease is
    /// consumed in either case.
    ///
    /// # Cancel safety
    ///
    /// Poll the future to its end; if it is dropped, the outcome is unknown.
    fn settle(self, disposition: Disposition) -> Self::Settle;

    /// Completes several deliveries, which leaves `batch` empty. They may be of several receivers of the transport. A lost lock
    /// fails one of them, and the others are completed. The future names each message by its index in `batch`.
    ///
    /// The default completes one by one. A transport overrides it where the broker takes several completions in one step, and
    /// then [`completes_in_batches`](Self::completes_in_batches).
    ///
    /// # Cancel safety
    ///
    /// As [`settle`](Self::settle).
    fn complete_all(batch: &mut Vec<Self>) -> CompleteAll<Self::Settle>
    where
        Self: Sized,
    {
        CompleteAll::each(batch.drain(..).map(|lease| lease.settle(Disposition::Complete)))
    }

    /// Returns whether [`complete_all`](Self::complete_all) of several such deliveries costs less than completing each. A
    /// consumer then collects the messages of quick handlers, and completes them before it receives again or waits.
    #[inline]
    fn completes_in_batches(&self) -> bool {
        false
    }

    /// Releases the lock without counting the delivery: for messages that no handler has seen.
    ///
    /// # Errors
    ///
    /// As [`settle`](Self::settle).
    ///
    /// # Cancel safety
    ///
    /// It begins when it is called, so the future may be dropped, for example in a `Drop`.
    fn release(self) -> Self::Settle;

    /// Abandons the message so that it is redelivered after `delay` and not before. The failed delivery counts, and after
    /// the last one the message is dead-lettered at once. The message keeps its number, its MessageId and, once it is due,
    /// its place, if abandoned messages of the transport do.
    ///
    /// `Err` returns the lease without an effect: the transport does not support it for this message. A transport that
    /// supports it reports [`Capability::DelayedRetry`](super::Capability::DelayedRetry). Messages of sessions may be an
    /// exception, because later ones would be delivered first.
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

    /// Releases the message so that it is redelivered after `delay` and not before, without counting the delivery;
    /// otherwise like [`abandon_after`](Self::abandon_after).
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

    /// Returns how long the lock holds from the delivery or the last renewal, or `None` without a lock that runs out: the
    /// message was removed when it was received, or the broker locks it until it is settled.
    fn lock_duration(&self) -> Option<Duration>;

    /// Returns whether the delivery has to be settled. `false` for a message that was removed when it was received: settling
    /// it is an invalid operation.
    ///
    /// The default is that a delivery with a [lock duration](Self::lock_duration) has to be settled. A lease whose lock does
    /// not run out overrides it.
    fn must_settle(&self) -> bool {
        self.lock_duration().is_some()
    }

    /// Returns the lock token, if the broker has one for the application.
    fn lock_token(&self) -> Option<LockToken> {
        None
    }
}

/// A received message with the right to settle it. If it is dropped without a settlement, the message is abandoned.
#[must_use = "a delivery that is dropped is abandoned, and the failed delivery counts"]
pub struct Delivery<L> {
    /// The message.
    pub message: Message,
    /// The right to settle it.
    pub lease: L,
}

impl<L: Lease> Delivery<L> {
    /// Settles by a disposition. The [delay](Changes::delay) of an abandoned message has its effect where the transport can
    /// [delay](Lease::abandon_after) it. Elsewhere the message is abandoned at once, and a warning is logged:
    /// [`abandon_after`](Self::abandon_after) returns the delivery instead. A consumer holds such a message for the delay.
    pub fn settle(self, disposition: Disposition) -> L::Settle {
        let lease = self.lease;
        match disposition {
            Disposition::Abandon(changes) if changes.delay().is_some() => {
                let delay = changes.delay().unwrap_or_default();
                match lease.abandon_after(changes.clone(), delay) {
                    Ok(settle) => settle,
                    Err(lease) => {
                        if let Some(suppressed) = log_limit("settle", "NoDelay") {
                            tracing::warn!(
                                target: "consign::transport",
                                ?delay,
                                suppressed,
                                "the transport cannot delay this message: it is abandoned at once"
                            );
                        }
                        lease.settle(Disposition::Abandon(changes))
                    }
                }
            }
            disposition => lease.settle(disposition),
        }
    }

    /// Abandons the message with a delay; the failed delivery counts.
    ///
    /// # Errors
    ///
    /// The delivery, if the transport [cannot delay](Lease::abandon_after) it.
    pub fn abandon_after(self, delay: Duration) -> Result<L::Settle, Self> {
        let Self { message, lease } = self;
        lease.abandon_after(Changes::NONE, delay).map_err(|lease| Self { message, lease })
    }

    /// Completes the message: the broker removes it.
    pub fn complete(self) -> L::Settle {
        self.lease.settle(Disposition::Complete)
    }

    /// Completes several messages, in one step if [the transport can](Lease::complete_all). The future names those that were not
    /// completed by their index, for instance because their lock was lost; the others are completed.
    ///
    /// ```
    /// use consign::{Message, administration::QueueSettings, broker::Broker, transport::{Delivery, ReceiverExt, Sender}};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let queue = Broker::new().create_queue("orders", QueueSettings::default())?;
    /// for order in ["first", "second"] {
    ///     queue.sender()?.send(Message::new(order)).await?;
    /// }
    /// let mut receiver = queue.receiver();
    /// let batch = receiver.receive_batch(100).await?;
    /// if let Err(error) = Delivery::complete_all(batch).await {
    ///     for (index, error) in error.failures() {
    ///         eprintln!("message {index} will be redelivered: {error}");
    ///     }
    /// }
    /// assert_eq!(queue.counts().active, 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn complete_all(deliveries: impl IntoIterator<Item = Self>) -> CompleteAll<L::Settle> {
        let mut batch: Vec<L> = deliveries.into_iter().map(|delivery| delivery.lease).collect();
        L::complete_all(&mut batch)
    }

    /// Abandons the message: it is redelivered, and the failed delivery counts.
    pub fn abandon(self) -> L::Settle {
        self.lease.settle(Disposition::ABANDON)
    }

    /// Defers the message: it is then received by its sequence number only.
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
