use std::{
    future::{Future, poll_fn},
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
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

/// Gives back what was received and not handed out.
impl<R: AsyncReceiver> Drop for FromAsync<R> {
    fn drop(&mut self) {
        for delivery in self.spare.drain(..) {
            drop(delivery.lease.release());
        }
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
                    if self.spare.is_empty() {
                        // It did not wait as it should have. Asking again at once may never end.
                        cx.waker().wake_by_ref();
                        return Poll::Pending;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{Ready, ready};

    use tokio_test::task;

    use super::*;
    use crate::time::Timestamp;
    use crate::{
        Disposition, Message,
        transport::{ErrorKind, SettleError},
    };

    #[derive(Debug)]
    struct NoLease;

    impl Lease for NoLease {
        type Settle = Ready<Result<(), SettleError>>;
        type Renew = Ready<Result<Timestamp, SettleError>>;

        fn settle(self, _: Disposition) -> Self::Settle {
            ready(Ok(()))
        }

        fn release(self) -> Self::Settle {
            ready(Ok(()))
        }

        fn renew(&self) -> Self::Renew {
            ready(Ok(Timestamp::MAX))
        }

        fn lock_duration(&self) -> Option<std::time::Duration> {
            None
        }
    }

    /// Answers as many messages as the next number says, some of them after one turn of the executor, and panics when
    /// there is no number.
    struct Script(Vec<usize>);

    impl AsyncReceiver for Script {
        type Lease = NoLease;

        async fn receive(&mut self, _: usize) -> Result<Vec<Delivery<NoLease>>, ReceiveError> {
            let answer = self.0.pop().expect("asked once too often");
            if answer > 0 {
                tokio::task::yield_now().await;
            }
            Ok((0..answer).map(|_| Delivery { message: Message::new(""), lease: NoLease }).collect())
        }
    }

    #[tokio::test]
    async fn what_is_too_much_waits_for_the_next_call() {
        let mut receiver = FromAsync::new(Script(vec![3]));
        assert_eq!(receiver.receive_batch(2).await.unwrap().len(), 2);
        assert_eq!(receiver.receive_batch(2).await.unwrap().len(), 1);
    }

    #[tokio::test]
    async fn a_dropped_receive_loses_nothing() {
        let mut receiver = FromAsync::new(Script(vec![1]));
        assert!(task::spawn(receiver.receive()).poll().is_pending());
        let _delivery = receiver.receive().await.unwrap();
    }

    #[tokio::test]
    async fn a_receiver_that_answers_nothing_does_not_hold_its_thread() {
        let mut receiver = FromAsync::new(Script(vec![0, 0]));
        let mut receive = task::spawn(receiver.receive());
        for _ in 0..2 {
            assert!(receive.poll().is_pending() && receive.is_woken());
        }
    }

    #[tokio::test]
    async fn a_receiver_that_panicked_is_an_error_from_then_on() {
        let mut receiver = FromAsync::new(Script(vec![]));
        for _ in 0..2 {
            assert_eq!(receiver.receive().await.unwrap_err().kind(), ErrorKind::General);
        }
    }
}
