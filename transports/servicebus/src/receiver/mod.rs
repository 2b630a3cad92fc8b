//! Receiving: a link with as much credit as the caller requests, and the leases of its deliveries.

mod attaching;
mod complete_all;
mod lease;
mod live;
mod quiesce;
mod settle;
mod source;

use std::{
    collections::VecDeque,
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
};

use consign_core::transport::{
    BoxFuture, Capabilities, Delivery, EntityInfo, ErrorKind, Lease, ReceiveError, Receiver, SettleError,
};
use futures_util::{FutureExt, StreamExt, stream::FuturesUnordered};
use tokio::{runtime::Handle, sync::oneshot};

pub use self::lease::ServiceBusLease;
use self::{
    attaching::Attaching,
    quiesce::{Quiesced, quiesce},
};
pub(crate) use self::{
    lease::{Right, removed},
    live::{Live, Wanted, attach, duration},
    settle::{ByToken, OnLink, outcome},
    source::{Mode, Origin, Source},
};
use crate::{
    capabilities::CAPABILITIES,
    error::Failure,
    log,
    retry::{Effect, retry},
};

/// Receives from an entity or its dead-letter sub-queue.
///
/// The broker locks only as many messages as a receive requests, and those of [`Options::prefetch`](crate::Options::prefetch). When
/// the receiver stops, the credit that is left is drained, and messages that had arrived are released.
///
/// A connection that is lost is opened again by the next receive. A lease of the lost connection settles by its lock token.
pub struct ServiceBusReceiver {
    source: Arc<Source>,
    state: State,
    /// Deliveries that arrived for a receive that was stopped, and that cannot be released.
    spare: VecDeque<Delivery<ServiceBusLease>>,
    /// Releases that are not answered.
    releases: FuturesUnordered<BoxFuture<Result<(), SettleError>>>,
    /// Attaches since the last delivery, or since a link that lasted.
    attaches: u32,
    /// Whether the last link has ended for the lack of a token, before a delivery and before it had lasted.
    was_unauthorized: bool,
}

enum State {
    /// No credit is given, if there is a link.
    Idle(Option<Live>),
    Attaching(Attaching),
    Receiving(Live),
    /// A task takes the credit back.
    Quiescing {
        ended: oneshot::Receiver<Quiesced>,
        /// Whether a caller receives again.
        is_wanted: Arc<AtomicBool>,
    },
}

impl ServiceBusReceiver {
    /// Attaches the link.
    pub(crate) async fn open(source: Source) -> Result<Self, Failure> {
        let source = Arc::new(source);
        let attaching = || source.attach();
        let live = retry(&source.core, Effect::Repeatable, attaching).await?;
        Ok(Self::of_link(source, live))
    }

    pub(crate) fn of_link(source: Arc<Source>, live: Live) -> Self {
        Self {
            source,
            state: State::Idle(Some(live)),
            spare: VecDeque::new(),
            releases: FuturesUnordered::new(),
            attaches: 1,
            was_unauthorized: false,
        }
    }

    /// Releases what has arrived and was not received, and detaches the link. A server may count what a link holds when it is
    /// detached.
    pub(crate) async fn close(mut self) -> Result<(), Failure> {
        let has_ended = matches!(&self.state, State::Idle(Some(live)) | State::Receiving(live) if live.has_ended());
        if !has_ended {
            self.stop();
            let limit = self.source.core.options.timeout;
            // The detach releases the rest.
            let _ = tokio::time::timeout(limit, poll_fn(|cx| self.poll_stopped(cx))).await;
        }
        self.detach().await
    }

    /// Detaches the link, whichever leases it has. The server releases what is locked. It is an error that the link has ended.
    pub(crate) async fn detach(mut self) -> Result<(), Failure> {
        self.release_spare();
        match std::mem::replace(&mut self.state, State::Idle(None)) {
            State::Idle(Some(live)) | State::Receiving(live) => live.detach().await,
            State::Quiescing { ended, .. } => match ended.await {
                Ok(Quiesced { live: Some(live), .. }) => live.detach().await,
                _ => Err(Failure::no_answer()),
            },
            State::Idle(None) | State::Attaching(_) => Err(Failure::no_answer()),
        }
    }

    /// Takes what has arrived, and returns how many deliveries that are.
    fn take(
        live: &mut Live,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<ServiceBusLease>>,
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

impl Receiver for ServiceBusReceiver {
    type Lease = ServiceBusLease;

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<ServiceBusLease>>,
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
                        State::Attaching(Attaching::new(source, attaches))
                    };
                }
                State::Attaching(attaching) => {
                    let attached = ready!(attaching.poll(cx));
                    self.state = State::Idle(None);
                    if let Some(attached) = attached {
                        self.state = State::Receiving(attached?);
                    }
                }
                State::Receiving(live) => match Self::take(live, cx, max, out) {
                    Poll::Ready(Ok(count)) => {
                        (self.attaches, self.was_unauthorized) = (0, false);
                        return Poll::Ready(Ok(count));
                    }
                    Poll::Ready(Err(failure)) => {
                        if live.age() > self.source.core.options.backoff.1 {
                            (self.attaches, self.was_unauthorized) = (0, false);
                        }
                        live.has_failed(&failure);
                        self.state = State::Idle(None);
                        let is_unauthorized = failure.kind() == ErrorKind::Unauthorized;
                        let is_repeated =
                            std::mem::replace(&mut self.was_unauthorized, is_unauthorized) && is_unauthorized;
                        if is_repeated || !self.source.attaches_again(&failure) {
                            self.source.log_over_limit(&failure);
                            return Poll::Ready(Err(self.source.last_error(failure).into()));
                        }
                        log::failed(&self.source.path, "the link was lost: it is attached again", &failure);
                    }
                    Poll::Pending => {
                        if let Err(failure) = live.ask_for(max, self.source.prefetch()) {
                            live.has_failed(&failure);
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
            State::Idle(_) => {}
            State::Attaching(attaching) => attaching.stop(),
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

    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn entity_info(&self) -> EntityInfo {
        self.source.entity_info()
    }
}

impl Drop for ServiceBusReceiver {
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

impl std::fmt::Debug for ServiceBusReceiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServiceBusReceiver").field("path", &self.source.path).finish_non_exhaustive()
    }
}
