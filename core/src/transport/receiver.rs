use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use super::{Capabilities, Delivery, DirectReceiver, EntityInfo, Lease, ReceiveError};

/// Receives messages from a queue or a subscription.
///
/// It has a poll function, so that its futures need no name and no allocation. To write a receiver as an `async fn`,
/// implement [`AsyncReceiver`](super::AsyncReceiver) and wrap it in [`FromAsync`](super::FromAsync).
///
/// # Examples
///
/// A receiver around another one that counts deliveries. It forwards [`stop`](Self::stop), or a wake-up of the inner receiver would be lost,
/// and [`poll_stopped`](Self::poll_stopped):
///
/// ```
/// use std::task::{Context, Poll, ready};
///
/// use consign::transport::{Capabilities, Delivery, EntityInfo, ReceiveError, Receiver};
///
/// struct Counted<R> {
///     inner: R,
///     deliveries: usize,
/// }
///
/// impl<R: Receiver> Receiver for Counted<R> {
///     type Lease = R::Lease;
///
///     fn poll_receive(
///         &mut self,
///         cx: &mut Context<'_>,
///         max: usize,
///         out: &mut Vec<Delivery<R::Lease>>,
///     ) -> Poll<Result<usize, ReceiveError>> {
///         let received = ready!(self.inner.poll_receive(cx, max, out))?;
///         self.deliveries += received;
///         Poll::Ready(Ok(received))
///     }
///
///     fn stop(&mut self) {
///         self.inner.stop();
///     }
///
///     fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<()> {
///         self.inner.poll_stopped(cx)
///     }
///
///     fn capabilities(&self) -> Capabilities {
///         self.inner.capabilities()
///     }
///
///     fn entity_info(&self) -> EntityInfo {
///         self.inner.entity_info()
///     }
/// }
/// # use consign::{Message, administration::QueueSettings, broker::Broker, transport::{ReceiverExt, Sender}};
/// # tokio_test::block_on(async {
/// # let queue = Broker::new().create_queue("orders", QueueSettings::default())?;
/// # queue.sender()?.send(Message::new("one order")).await?;
/// # let mut counted = Counted { inner: queue.receiver(), deliveries: 0 };
/// # counted.receive().await?.complete().await?;
/// # assert_eq!(counted.deliveries, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
pub trait Receiver: Send + Unpin {
    /// The right to settle what this receiver delivers.
    type Lease: Lease;

    /// Appends up to `max` deliveries to `out`, and returns how many; at least one: a `max` of 0 counts as 1. Without a message
    /// it is pending, and wakes the task that polled last when there may be one.
    ///
    /// # Errors
    ///
    /// Those of the connection, after which the receiver may be polled again, and
    /// [`EntityNotFound`](super::ErrorKind::EntityNotFound) if the entity was deleted. A call that returns an error has appended
    /// nothing: a receiver that has deliveries returns them, and the error at the next call.
    ///
    /// # Cancel safety
    ///
    /// A message is locked in the same poll that delivers it, so dropping a future that polls this loses nothing.
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<Self::Lease>>,
    ) -> Poll<Result<usize, ReceiveError>>;

    /// Declares that the caller does not poll for now: its wake-up is passed to another receiver. A receive that is in
    /// progress at the broker is cancelled, and messages that it has locked are released.
    fn stop(&mut self) {}

    /// Waits until nothing is locked for a receiver that was stopped: a receive that is in progress at the broker has ended, and the
    /// broker has the releases of messages that no caller has got. The caller will not poll for messages soon, so a transport
    /// that keeps a subscription for a while after [`stop`](Self::stop) ends it now.
    ///
    /// It is called after `stop`, until it is ready, and again after a further receive. The default is ready at once: nothing is
    /// locked ahead. A consumer that drains waits for it, up to its operation timeout. A wrapper answers as the receiver inside does.
    ///
    /// # Cancel safety
    ///
    /// The releases go on when the caller polls no longer.
    fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let _ = cx;
        Poll::Ready(())
    }

    /// Lets `direct` take messages as the entity accepts them, for as long as the caller keeps it. A transport that cannot, or
    /// whose messages are on a disk, ignores it. So do wrappers that look at deliveries.
    #[doc(hidden)]
    fn receive_directly(&mut self, direct: &Arc<dyn DirectReceiver>) {
        let _ = direct;
    }

    /// Declares that the caller browses messages, and releases each of them: from now on, a receiver that dead-letters what
    /// it cannot decode delivers it instead, as bytes. The default has no effect.
    #[doc(hidden)]
    fn browse_only(&mut self) {}

    /// Returns the capabilities of the transport of this receiver. The default has none.
    fn capabilities(&self) -> Capabilities {
        Capabilities::none()
    }

    /// Returns the entity, for log lines and dead letters. By default it is unknown. A wrapper returns the value of the
    /// inner receiver.
    fn entity_info(&self) -> EntityInfo {
        EntityInfo::default()
    }
}

/// The `async` methods of every [`Receiver`].
///
/// Each receive [stops](Receiver::stop) the receiver when its future ends, also after it has returned messages. What the transport
/// has locked ahead is then released, so a prefetch of the transport has no effect between two calls. A
/// consumer polls the receiver itself and uses the prefetch.
pub trait ReceiverExt: Receiver {
    /// Receives one message. Cancel-safe: dropping the future loses no message and leaves no lock.
    fn receive(&mut self) -> impl Future<Output = Result<Delivery<Self::Lease>, ReceiveError>> + Send
    where
        Self: Sized,
    {
        async move {
            let mut received = self.receive_batch(1).await?;
            match received.pop() {
                Some(delivery) => Ok(delivery),
                None => Err(ReceiveError::new(super::ErrorKind::General)),
            }
        }
    }

    /// Receives a message, like [`receive`](Self::receive), or fails as
    /// [`ServiceTimeout`](super::ErrorKind::ServiceTimeout) after `wait`, by tokio's time.
    fn receive_within(
        &mut self,
        wait: Duration,
    ) -> impl Future<Output = Result<Delivery<Self::Lease>, ReceiveError>> + Send
    where
        Self: Sized,
    {
        async move {
            match tokio::time::timeout(wait, self.receive()).await {
                Ok(received) => received,
                Err(_) => Err(ReceiveError::new(super::ErrorKind::ServiceTimeout).with_detail("no message")),
            }
        }
    }

    /// Waits for one message, and returns up to `max` that are available; 0 counts as 1. Cancel-safe, like
    /// [`receive`](Self::receive).
    fn receive_batch(
        &mut self,
        max: usize,
    ) -> impl Future<Output = Result<Vec<Delivery<Self::Lease>>, ReceiveError>> + Send
    where
        Self: Sized,
    {
        async move {
            let waiting = Waiting(self);
            let mut out = Vec::new();
            let received = poll_fn(|cx| waiting.0.poll_receive(cx, max.max(1), &mut out)).await;
            appended(received, &out)?;
            #[cfg(sabotage)]
            if crate::sabotage::has("AwaitAfterLock") {
                let mut has_yielded = false;
                poll_fn(|cx| {
                    cx.waker().wake_by_ref();
                    if std::mem::replace(&mut has_yielded, true) { Poll::Ready(()) } else { Poll::Pending }
                })
                .await;
            }
            Ok(out)
        }
    }

    /// Stops the receiver, and waits until it has released what it had locked ahead: before a shutdown, so that other receivers
    /// get these messages at once. It may receive again afterwards.
    ///
    /// # Cancel safety
    ///
    /// The receiver is stopped, and the releases go on.
    fn stopped(&mut self) -> impl Future<Output = ()> + Send
    where
        Self: Sized,
    {
        self.stop();
        poll_fn(|cx| self.poll_stopped(cx))
    }
}

impl<R: Receiver> ReceiverExt for R {}

/// The result of a receive. What a receiver has appended before its error, against its contract, is locked, and is delivered.
#[doc(hidden)]
#[inline]
pub fn appended<L>(received: Result<usize, ReceiveError>, out: &[Delivery<L>]) -> Result<usize, ReceiveError> {
    match received {
        Err(_) if !out.is_empty() => Ok(out.len()),
        received => received,
    }
}

/// Stops the receiver when the future that waits on it is dropped.
struct Waiting<'r, R: Receiver>(&'r mut R);

impl<R: Receiver> Drop for Waiting<'_, R> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// A boxed future, for transports whose future has no name.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;
