use std::{
    future::{Future, poll_fn},
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use super::{Capabilities, Delivery, EntityInfo, Lease, ReceiveError};

/// Where messages come from.
///
/// It is a poll function so that its futures need no name and no allocation. A receiver that is easier written as an
/// `async fn` implements [`AsyncReceiver`](super::AsyncReceiver) and is wrapped in [`FromAsync`](super::FromAsync).
///
/// # Examples
///
/// A receiver around another one that counts deliveries. It forwards [`stop`](Self::stop), or a wake-up of the inner receiver would be lost:
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

    /// Appends up to `max` deliveries to `out`, and answers how many; at least one. Without a message it is pending,
    /// and wakes the task when there may be some.
    ///
    /// # Errors
    ///
    /// Those of the connection, after which the receiver may be polled again, and
    /// [`EntityNotFound`](super::ErrorKind::EntityNotFound) if the entity was deleted.
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

    /// The caller will not poll for now: a wake-up that was meant for it goes to another receiver. A receive that goes on at
    /// the broker is cancelled, and messages that it has locked are released.
    fn stop(&mut self) {}

    /// Returns the capabilities of the transport of this receiver. The default claims nothing.
    fn capabilities(&self) -> Capabilities {
        Capabilities::none()
    }

    /// Returns the entity, for log lines and dead letters. By default nothing of it is known. A wrapper answers as the
    /// receiver inside does.
    fn entity_info(&self) -> EntityInfo {
        EntityInfo::default()
    }
}

/// `async` calls on every [`Receiver`].
pub trait ReceiverExt: Receiver {
    /// Receives one message. Cancel-safe: dropping the future loses nothing and leaves no lock.
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

    /// As [`receive`](Self::receive); [`ServiceTimeout`](super::ErrorKind::ServiceTimeout) if there is none within `wait`, by
    /// tokio's time.
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

    /// Waits for one message and takes up to `max` that are there. Cancel-safe as [`receive`](Self::receive) is.
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
            poll_fn(|cx| waiting.0.poll_receive(cx, max.max(1), &mut out)).await?;
            Ok(out)
        }
    }
}

impl<R: Receiver> ReceiverExt for R {}

/// Stops the receiver when the future that waits on it is dropped.
struct Waiting<'r, R: Receiver>(&'r mut R);

impl<R: Receiver> Drop for Waiting<'_, R> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// A boxed future, for transports that cannot name theirs.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;
