use std::{
    future::{Future, poll_fn},
    pin::Pin,
    task::{Context, Poll, ready},
};

use super::{Delivery, Lease, ReceiveError};

/// Where messages come from.
///
/// It is a poll function so that its futures need no name and no allocation. A receiver that is easier written as an
/// `async fn` implements [`AsyncReceiver`] and is wrapped in [`FromAsync`].
pub trait Receiver: Send + Unpin {
    /// The right to settle what this receiver delivers.
    type Lease: Lease;

    /// Appends up to `max` deliveries to `out`, and answers how many; at least one. With none at hand it is pending and
    /// wakes the task when there may be some.
    ///
    /// A message is locked in the same poll that delivers it, so dropping a future that polls this loses nothing.
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<Self::Lease>>,
    ) -> Poll<Result<usize, ReceiveError>>;

    /// The caller will not poll for now: a wake-up that was meant for it goes to another receiver.
    fn stop(&mut self) {}
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

/// A receiver written as an `async fn`. [`FromAsync`] makes it a [`Receiver`].
pub trait AsyncReceiver: Send + Unpin + 'static {
    /// The right to settle what this receiver delivers.
    type Lease: Lease;

    /// Receives 1 to `max` messages, waiting for the first.
    fn receive(&mut self, max: usize) -> impl Future<Output = Result<Vec<Delivery<Self::Lease>>, ReceiveError>> + Send;
}

/// Makes a [`Receiver`] of an [`AsyncReceiver`]. It boxes one future for each call of the inner receiver, and keeps it
/// when a caller goes away, so that what it has received is not lost.
pub struct FromAsync<R: AsyncReceiver> {
    state: State<R>,
    spare: Vec<Delivery<R::Lease>>,
}

type Received<R> = (R, Result<Vec<Delivery<<R as AsyncReceiver>::Lease>>, ReceiveError>);

enum State<R: AsyncReceiver> {
    Idle(Option<R>),
    Receiving(BoxFuture<Received<R>>),
}

impl<R: AsyncReceiver> FromAsync<R> {
    /// Wraps `receiver`.
    #[must_use]
    pub fn new(receiver: R) -> Self {
        Self { state: State::Idle(Some(receiver)), spare: Vec::new() }
    }
}

/// Nothing in it is pinned in place.
impl<R: AsyncReceiver> Unpin for FromAsync<R> {}

impl<R: AsyncReceiver> std::fmt::Debug for FromAsync<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FromAsync").field("spare", &self.spare.len()).finish_non_exhaustive()
    }
}

impl<R: AsyncReceiver> Receiver for FromAsync<R> {
    type Lease = R::Lease;

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<R::Lease>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        loop {
            if !self.spare.is_empty() {
                let taken = self.spare.len().min(max.max(1));
                out.extend(self.spare.drain(..taken));
                return Poll::Ready(Ok(taken));
            }
            match &mut self.state {
                State::Idle(receiver) => {
                    let Some(mut receiver) = receiver.take() else {
                        let gone = ReceiveError::new(super::ErrorKind::General);
                        return Poll::Ready(Err(gone.with_detail("the receiver panicked")));
                    };
                    self.state = State::Receiving(Box::pin(async move {
                        let result = receiver.receive(max.max(1)).await;
                        (receiver, result)
                    }));
                }
                State::Receiving(future) => {
                    let future = future.as_mut();
                    let polled = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| future.poll(cx)));
                    let Ok(polled) = polled else {
                        self.state = State::Idle(None);
                        continue;
                    };
                    let (receiver, result) = ready!(polled);
                    self.state = State::Idle(Some(receiver));
                    self.spare = result?;
                }
            }
        }
    }
}
