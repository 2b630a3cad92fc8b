//! Receivers that are written as an `async fn`.

mod finish;
#[cfg(test)]
mod tests;

use std::{
    fmt,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Waker, ready},
};

use futures_util::{FutureExt, StreamExt, stream::FuturesUnordered};
use tokio::{runtime::Handle, sync::oneshot};

use self::finish::{finish, lost, release};
use super::{BoxFuture, Capabilities, Delivery, EntityInfo, ErrorKind, Lease, ReceiveError, Receiver};

/// A receiver written as an `async fn`. [`FromAsync`] makes it a [`Receiver`].
pub trait AsyncReceiver: Send + Unpin + 'static {
    /// The right to settle what this receiver delivers.
    type Lease: Lease;

    /// Receives 1 to `max` messages, waiting for the first.
    ///
    /// `stop` is ready when no caller waits for the messages any more. A receiver that polls its broker for long then
    /// cancels that poll, and returns what it has locked, which may be nothing. A receiver that ignores `stop` goes on
    /// in a task until it has received something. In both cases [`FromAsync`] releases the messages.
    ///
    /// The future is not dropped before it is ready, with these exceptions: its runtime shuts down; its [`FromAsync`] was dropped a
    /// minute ago; or its [`FromAsync`] is dropped outside of a tokio runtime, where no task can go on with it.
    fn receive(
        &mut self,
        max: usize,
        stop: Stop,
    ) -> impl Future<Output = Result<Vec<Delivery<Self::Lease>>, ReceiveError>> + Send;

    /// Returns the capabilities of the transport of this receiver. The default has none.
    fn capabilities(&self) -> Capabilities {
        Capabilities::none()
    }

    /// As [`Receiver::entity_info`]. It is called once.
    fn entity_info(&self) -> EntityInfo {
        EntityInfo::default()
    }
}

/// A future that is ready when no caller waits for a receive any more: its [`FromAsync`] was
/// [stopped](Receiver::stop), or dropped.
#[must_use = "a future does nothing until it is awaited"]
pub struct Stop(Option<oneshot::Receiver<()>>);

impl Future for Stop {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(stop) = &mut self.0 {
            // The other half is gone, or was used: both mean the same.
            let _ = ready!(stop.poll_unpin(cx));
            self.0 = None;
        }
        Poll::Ready(())
    }
}

impl fmt::Debug for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stop")
    }
}

/// A [`Receiver`] around an [`AsyncReceiver`]. It allocates twice for each call of the inner receiver.
///
/// A receive that is under way when it is [stopped](Receiver::stop), or dropped, is notified and goes on in a task of
/// the tokio runtime until it ends. The messages that it has locked are released without a count, unless a caller polls
/// again by then. What was received and deleted is kept for the next poll.
pub struct FromAsync<R: AsyncReceiver> {
    state: State<R>,
    spare: Vec<Delivery<R::Lease>>,
    /// Releases that are not answered.
    releases: FuturesUnordered<Release<R>>,
    capabilities: Capabilities,
    entity: EntityInfo,
}

type Received<R> = (R, Result<Vec<Delivery<<R as AsyncReceiver>::Lease>>, ReceiveError>);
type Release<R> = <<R as AsyncReceiver>::Lease as Lease>::Settle;
/// The end of a receive that was stopped, and the releases of what it had locked.
type Ended<R> = (Received<R>, Vec<Release<R>>);

enum State<R: AsyncReceiver> {
    /// Nothing is there after a panic of the receiver.
    Idle(Option<R>),
    Receiving {
        receive: BoxFuture<Received<R>>,
        /// Nothing is there once it was used.
        stop: Option<oneshot::Sender<()>>,
    },
    /// A task waits for the end of a receive that was stopped.
    Stopped {
        /// Closed if the receiver has panicked.
        received: oneshot::Receiver<Ended<R>>,
        /// Whether a caller polls again.
        is_wanted: Arc<AtomicBool>,
    },
}

impl<R: AsyncReceiver> FromAsync<R> {
    /// Wraps `receiver`.
    #[must_use]
    pub fn new(receiver: R) -> Self {
        let (capabilities, entity) = (receiver.capabilities(), receiver.entity_info());
        Self {
            state: State::Idle(Some(receiver)),
            spare: Vec::new(),
            releases: FuturesUnordered::new(),
            capabilities,
            entity,
        }
    }

    /// The receive under way has ended after it was stopped.
    fn take_ended(&mut self, (receiver, result): Received<R>) {
        self.state = State::Idle(Some(receiver));
        match result {
            Ok(deliveries) => self.spare.extend(deliveries),
            Err(error) => tracing::debug!(%error, "a receive failed after it was stopped"),
        }
        self.releases.extend(release::<R>(&mut self.spare));
    }

    /// Forgets the releases that are answered. The others have begun.
    fn forget_releases(&mut self) {
        while let Some(Some(_)) = self.releases.next().now_or_never() {}
    }
}

impl<R: AsyncReceiver> Drop for FromAsync<R> {
    fn drop(&mut self) {
        self.stop();
        if !self.spare.is_empty() {
            lost(&self.entity, self.spare.len());
        }
    }
}

/// No field is structurally pinned.
impl<R: AsyncReceiver> Unpin for FromAsync<R> {}

impl<R: AsyncReceiver> fmt::Debug for FromAsync<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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
                        let gone = ReceiveError::new(ErrorKind::General).with_retryable(false);
                        return Poll::Ready(Err(gone.with_detail("the receiver panicked")));
                    };
                    let (stop, stopped) = oneshot::channel();
                    let receive = Box::pin(async move {
                        let result = receiver.receive(max.max(1), Stop(Some(stopped))).await;
                        (receiver, result)
                    });
                    self.state = State::Receiving { receive, stop: Some(stop) };
                }
                State::Receiving { receive, stop } => {
                    let was_stopped = stop.is_none();
                    let Ok(polled) = catch_unwind(AssertUnwindSafe(|| receive.as_mut().poll(cx))) else {
                        self.state = State::Idle(None);
                        continue;
                    };
                    let (receiver, result) = ready!(polled);
                    self.state = State::Idle(Some(receiver));
                    self.spare = result?;
                    if self.spare.is_empty() && !was_stopped {
                        // It did not wait as it should have. Asking again at once may never end.
                        cx.waker().wake_by_ref();
                        return Poll::Pending;
                    }
                }
                State::Stopped { received, is_wanted } => {
                    is_wanted.store(true, Ordering::Release);
                    let Ok(((receiver, result), releases)) = ready!(received.poll_unpin(cx)) else {
                        self.state = State::Idle(None);
                        continue;
                    };
                    self.state = State::Idle(Some(receiver));
                    self.releases.extend(releases);
                    self.spare = result?;
                }
            }
        }
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn entity_info(&self) -> EntityInfo {
        self.entity.clone()
    }

    fn stop(&mut self) {
        self.forget_releases();
        self.releases.extend(release::<R>(&mut self.spare));
        match &mut self.state {
            State::Idle(_) => {}
            State::Receiving { receive, stop } => {
                if let Some(stop) = stop.take() {
                    let _ = stop.send(());
                }
                // Most receivers have only to hear of it.
                let mut unwoken = Context::from_waker(Waker::noop());
                match catch_unwind(AssertUnwindSafe(|| receive.as_mut().poll(&mut unwoken))) {
                    Ok(Poll::Ready(received)) => self.take_ended(received),
                    Ok(Poll::Pending) => {
                        // Without a runtime the next poll goes on with it.
                        if let Ok(runtime) = Handle::try_current()
                            && let State::Receiving { receive, .. } =
                                std::mem::replace(&mut self.state, State::Idle(None))
                        {
                            let (back, received) = oneshot::channel();
                            let is_wanted = Arc::new(AtomicBool::new(false));
                            runtime.spawn(finish::<R>(receive, back, Arc::clone(&is_wanted), self.entity.clone()));
                            self.state = State::Stopped { received, is_wanted };
                        }
                    }
                    Err(_) => self.state = State::Idle(None),
                }
            }
            State::Stopped { received, is_wanted } => {
                is_wanted.store(false, Ordering::Release);
                if let Ok((received, releases)) = received.try_recv() {
                    self.releases.extend(releases);
                    self.take_ended(received);
                }
            }
        }
    }

    fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let State::Stopped { received, .. } = &mut self.state {
            match ready!(received.poll_unpin(cx)) {
                Ok((received, releases)) => {
                    self.releases.extend(releases);
                    self.take_ended(received);
                }
                Err(_) => self.state = State::Idle(None),
            }
        }
        while ready!(self.releases.poll_next_unpin(cx)).is_some() {}
        Poll::Ready(())
    }
}
