//! Receiving: a link with as much credit as the caller requests, and the leases of its deliveries.

mod complete_all;
mod copy;
mod held;
mod lease;
mod live;
mod quiesce;
mod settle;
mod source;
mod unreadable;

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
};

use consign_core::transport::{
    BoxFuture, Capabilities, Delivery, EntityInfo, Lease, ReceiveError, Receiver, SettleError,
};
use futures_util::{FutureExt, StreamExt, stream::FuturesUnordered};
use tokio::{runtime::Handle, sync::oneshot};

pub use self::lease::Amqp10Lease;
pub(crate) use self::source::{Mode, Place, Source};
use self::{
    live::Live,
    quiesce::{Quiesced, quiesce},
};
use crate::{error::Failure, log};

/// Receives from an entity or its dead-letter sub-queue.
///
/// The broker locks only as many messages as a receive requests, and those of [`Options::prefetch`](crate::Options::prefetch). When
/// the receiver stops, the credit that is left is drained, and messages that had arrived are released.
///
/// A connection that is lost is opened again by the next receive. Leases of the lost connection settle nothing.
pub struct Amqp10Receiver {
    source: Arc<Source>,
    state: State,
    /// Deliveries that arrived for a receive that was stopped, and that cannot be released.
    spare: VecDeque<Delivery<Amqp10Lease>>,
    /// Releases that are not answered.
    releases: FuturesUnordered<BoxFuture<Result<(), SettleError>>>,
    /// Attaches since the last delivery, or since a link that lasted.
    attaches: u32,
}

enum State {
    /// No credit is given, if there is a link.
    Idle(Option<Live>),
    Attaching(BoxFuture<Result<Live, Failure>>),
    Receiving(Live),
    /// A task takes the credit back.
    Quiescing {
        ended: oneshot::Receiver<Quiesced>,
        /// Whether a caller receives again.
        is_wanted: Arc<AtomicBool>,
    },
}

impl Amqp10Receiver {
    /// Attaches the link.
    pub(crate) async fn open(source: Source) -> Result<Self, Failure> {
        let source = Arc::new(source);
        let live = source.attach().await?;
        Ok(Self {
            source,
            state: State::Idle(Some(live)),
            spare: VecDeque::new(),
            releases: FuturesUnordered::new(),
            attaches: 1,
        })
    }

    /// Returns the address that the broker has made for the link.
    pub(crate) fn dynamic_address(&self) -> Option<String> {
        match &self.state {
            State::Idle(Some(live)) | State::Receiving(live) => live.dynamic_address(),
            _ => None,
        }
    }

    /// Takes what has arrived, and returns how many deliveries that are.
    fn take(
        live: &mut Live,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<Amqp10Lease>>,
    ) -> Poll<Result<usize, Failure>> {
        let mut taken = 0;
        while taken < max {
            match live.poll_next(cx) {
                Poll::Ready(Ok(delivery)) => {
                    out.push(delivery);
                    taken += 1;
                }
                // An error is returned by the next call.
                Poll::Ready(Err(_)) | Poll::Pending if taken > 0 => break,
                Poll::Ready(Err(failure)) => return Poll::Ready(Err(failure)),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(Ok(taken))
    }

    /// A task has taken the credit back.
    fn take_ended(&mut self, ended: Result<Quiesced, oneshot::error::RecvError>) {
        let Ok(Quiesced { live, deliveries }) = ended else {
            self.state = State::Idle(None);
            return;
        };
        self.state = State::Idle(live);
        self.spare.extend(deliveries);
    }

    /// Releases the spare deliveries. Those that were received and deleted stay for the next receive.
    fn release_spare(&mut self) {
        if self.source.mode == Mode::PeekLock {
            self.releases.extend(self.spare.drain(..).map(|delivery| delivery.lease.release()));
        }
    }
}

impl Receiver for Amqp10Receiver {
    type Lease = Amqp10Lease;

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<Amqp10Lease>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        let max = max.max(1);
        while let Some(Some(_)) = self.releases.next().now_or_never() {}
        loop {
            if !self.spare.is_empty() {
                let count = self.spare.len().min(max);
                out.extend(self.spare.drain(..count));
                return Poll::Ready(Ok(count));
            }
            match &mut self.state {
                State::Idle(live) => {
                    self.state = if let Some(live) = live.take() {
                        State::Receiving(live)
                    } else {
                        let (source, attaches) = (Arc::clone(&self.source), self.attaches);
                        self.attaches = attaches.saturating_add(1);
                        State::Attaching(Box::pin(async move { source.attach_again(attaches).await }))
                    };
                }
                State::Attaching(attaching) => {
                    let attached = ready!(attaching.as_mut().poll(cx));
                    self.state = State::Idle(None);
                    self.state = State::Receiving(attached?);
                }
                State::Receiving(live) => match Self::take(live, cx, max, out) {
                    Poll::Ready(Ok(count)) => {
                        self.attaches = 0;
                        return Poll::Ready(Ok(count));
                    }
                    Poll::Ready(Err(failure)) => {
                        if live.age() > self.source.core.options.backoff.1 {
                            self.attaches = 0;
                        }
                        self.state = State::Idle(None);
                        if !self.source.attaches_again(&failure) {
                            self.source.log_over_limit(&failure);
                            return Poll::Ready(Err(self.source.last_error(failure).into()));
                        }
                        log::failed(&self.source.path, "the link was lost: it is attached again", &failure);
                    }
                    Poll::Pending => {
                        if let Err(failure) = live.ask_for(cx, max, self.source.prefetch()) {
                            self.state = State::Idle(None);
                            if failure.is_over_limit() {
                                self.source.log_over_limit(&failure);
                                return Poll::Ready(Err(self.source.last_error(failure).into()));
                            }
                            log::failed(&self.source.path, "the link was lost: it is attached again", &failure);
                            continue;
                        }
                        return Poll::Pending;
                    }
                },
                State::Quiescing { ended, is_wanted } => {
                    is_wanted.store(true, Ordering::Release);
                    let ended = ready!(ended.poll_unpin(cx));
                    self.take_ended(ended);
                }
            }
        }
    }

    fn stop(&mut self) {
        self.release_spare();
        match &mut self.state {
            // An attach goes on with the next receive.
            State::Idle(_) | State::Attaching(_) => {}
            State::Receiving(live) if !live.may_receive() => {
                let State::Receiving(live) = std::mem::replace(&mut self.state, State::Idle(None)) else { return };
                self.state = State::Idle(Some(live));
            }
            State::Receiving(_) => {
                // Without a runtime the next poll goes on with it.
                let Ok(runtime) = Handle::try_current() else { return };
                let State::Receiving(live) = std::mem::replace(&mut self.state, State::Idle(None)) else { return };
                let (back, ended) = oneshot::channel();
                let is_wanted = Arc::new(AtomicBool::new(false));
                runtime.spawn(quiesce(live, Arc::clone(&self.source), back, Arc::clone(&is_wanted)));
                self.state = State::Quiescing { ended, is_wanted };
            }
            State::Quiescing { ended, is_wanted } => {
                is_wanted.store(false, Ordering::Release);
                if let Ok(quiesced) = ended.try_recv() {
                    self.take_ended(Ok(quiesced));
                    self.release_spare();
                }
            }
        }
    }

    fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let State::Quiescing { ended, .. } = &mut self.state {
            let ended = ready!(ended.poll_unpin(cx));
            self.take_ended(ended);
            self.release_spare();
        }
        while ready!(self.releases.poll_next_unpin(cx)).is_some() {}
        Poll::Ready(())
    }

    fn browse_only(&mut self) {
        self.source.only_browses.store(true, Ordering::Release);
    }

    fn capabilities(&self) -> Capabilities {
        self.source.core.capabilities()
    }

    fn entity_info(&self) -> EntityInfo {
        self.source.entity_info()
    }
}

impl Drop for Amqp10Receiver {
    fn drop(&mut self) {
        if let State::Quiescing { ended, .. } = &mut self.state {
            // What the task has not handed over by now, it releases.
            ended.close();
        }
        self.stop();
        if !self.spare.is_empty() {
            log::lost(&self.source.path, self.spare.len());
        }
    }
}

impl std::fmt::Debug for Amqp10Receiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Amqp10Receiver").field("path", &self.source.path).finish_non_exhaustive()
    }
}
