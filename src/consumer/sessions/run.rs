//! Accepts sessions, runs each beside the others, and closes them all at the shutdown.

use std::{
    future::{Future, pending, poll_fn},
    panic::resume_unwind,
    pin::{Pin, pin},
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
    time::Duration,
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use tokio::{
    sync::watch,
    time::{Sleep, sleep},
};
use tower::BoxError;
use tower_service::Service;

use super::{
    super::buffered_receiver::LONGEST_PAUSE,
    SessionConsumer,
    accepted::{close_surplus, spare, working},
    accepting::Accepting,
    receiver::SessionReceiver,
    registry::HeldSession,
    shared::Shared,
};
use crate::{
    Disposition, Message,
    consumer::{
        ConsumeError, ConsumerState, Health, Stats,
        control::Control,
        health::ConsumerFailure,
        log::{Log, Receiving},
        options::Options,
        run::ConsumerRun,
        timers::SETTLE_GRACE,
        woken::WokenSet,
    },
    transport::{ErrorKind, ReceiveError, Receiver, Session, SessionSource, deadline::Timed},
};

/// How long a shutdown waits for sessions to close after the last settlement.
const CLOSE_GRACE: Duration = Duration::from_secs(1);

impl<A, S> SessionConsumer<A, S>
where
    A: SessionSource,
    S: Service<Message, Response = Disposition> + Clone,
    S::Error: Into<BoxError>,
{
    /// Runs until accepting, a session or the stack fails for good. A lost session lock is not such a failure.
    pub async fn run(self) -> Result<Stats, ConsumeError> {
        self.run_until(pending::<()>()).await
    }

    /// Runs until `shutdown` is ready, and drains: nothing new is accepted or received, handlers that run have the
    /// drain timeout, and sessions are closed. It ends within the drain timeout plus 2 seconds, see
    /// [`drain_timeout`](Self::drain_timeout); a session that is not closed by then is dropped. Dropping the future
    /// abandons the messages of its handlers and closes the sessions.
    pub async fn run_until<F: Future>(mut self, shutdown: F) -> Result<Stats, ConsumeError> {
        let (stop, _) = watch::channel(false);
        let mut shutdown = pin!(shutdown);
        let mut accepting = Accepting::default();
        let mut sessions = FuturesUnordered::new();
        let spares = Arc::new(AtomicUsize::new(0));
        let mut accepted: Vec<Weak<Shared<A::Session>>> = Vec::new();
        let mut failure = None;
        let mut end = pin!(None);
        self.log.learn(&self.source.entity_info());
        let driver = WokenSet::new(1);
        self.control.attach(&driver, self.concurrency, &self.health);
        let _ends = Ends(self.health.clone(), self.control.clone(), Arc::clone(&driver), self.log.to_finish());
        loop {
            accepted.retain(|shared| shared.strong_count() > 0);
            let (is_paused, concurrency) = (self.control.is_paused(), self.control.concurrency_of(self.concurrency));
            if !*stop.borrow() {
                self.health.is(if is_paused { ConsumerState::Paused } else { ConsumerState::Running });
                close_surplus(&accepted, if is_paused { 0 } else { concurrency });
            }
            let is_full = sessions.len() >= concurrency;
            // Those that are being closed count too: a broker may take long to close each.
            let is_closing = sessions.len() >= concurrency.saturating_mul(2);
            let is_over = is_paused || is_closing || is_full && working(&accepted) > concurrency;
            let next = poll_fn(|cx| {
                driver.register(cx.waker());
                if driver.take_changed() {
                    return Poll::Ready(Next::Changed);
                }
                let stops = *stop.borrow();
                if !stops && shutdown.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(Next::Shutdown);
                }
                if let Poll::Ready(Some(ended)) = sessions.poll_next_unpin(cx) {
                    return Poll::Ready(Next::Ended(ended));
                }
                if stops && sessions.is_empty() {
                    return Poll::Ready(Next::Drained);
                }
                if stops {
                    let end = end.as_mut().as_pin_mut();
                    return end.map_or(Poll::Pending, |end: Pin<&mut Sleep>| end.poll(cx).map(|()| Next::Overdue));
                }
                if is_over || is_full && spares.load(Ordering::Relaxed) == 0 {
                    self.source.stop();
                    return Poll::Pending;
                }
                accepting.poll(&mut self.source, &mut self.log, &self.health, cx).map(Next::Accepted)
            });
            match next.await {
                Next::Drained => return failure.map_or(Ok(self.stats), Err),
                Next::Overdue => {
                    self.log.sessions_overdue(&self.source.entity_info(), sessions.len());
                    for _ in 0..sessions.len() {
                        self.stats.count_timed_out();
                    }
                    self.health.failed(ConsumerFailure::Close(ErrorKind::ServiceTimeout));
                    return failure.map_or(Ok(self.stats), Err);
                }
                Next::Accepted(Ok(session)) => {
                    if is_full && let Some(spare) = spare(&accepted) {
                        spare.retire();
                    }
                    self.stats.count_sessions();
                    let options = self.options();
                    let session = SessionReceiver::new(session, self.idle, &options, Arc::clone(&spares));
                    accepted.push(Arc::downgrade(session.shared()));
                    sessions.push(work(session, self.service.clone(), options, stop.subscribe()));
                    continue;
                }
                Next::Ended(Ok(ended)) => {
                    accepting.ended(&mut self.source, matches!(ended, SessionEnd::LostUnused));
                    continue;
                }
                Next::Changed => continue,
                Next::Shutdown => {}
                Next::Ended(Err(error)) => failure = failure.or(Some(error)),
                Next::Accepted(Err(error)) => {
                    self.health.failed(ConsumerFailure::Receive(error.kind()));
                    self.log.receive_failed(&self.source.entity_info(), Receiving::Sessions, &error, None);
                    failure = failure.or(Some(ConsumeError::Receive(error)));
                }
            }
            self.health.is(ConsumerState::Draining);
            self.source.stop();
            if end.is_none() {
                end.set(Some(sleep(self.drain.saturating_add(SETTLE_GRACE + CLOSE_GRACE))));
            }
            stop.send_replace(true);
        }
    }

    /// One session's share.
    fn options(&self) -> Options {
        let sink = self.undeliverable.clone();
        Options {
            concurrency: 1,
            prefetch: 0,
            renewal: self.renewal,
            drain: self.drain,
            // The messages behind one of a session do not pass it.
            max_held: 0,
            operation: self.operation,
            longest_refusal: LONGEST_PAUSE,
            stats: self.stats.clone(),
            health: self.health.of_part(),
            control: Control::new(1),
            log: self.log.of_part(None),
            undeliverable: sink.map(|sink| {
                Box::new(move |message| {
                    if sink.call(message) {
                        // The panic hook has run already. The caller catches this and writes the log line.
                        resume_unwind(Box::new("on_undeliverable panicked"));
                    }
                }) as _
            }),
        }
    }
}

/// However it ends.
struct Ends(Health, Control, Arc<WokenSet>, Log);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.is(ConsumerState::Ended);
        self.1.detach(&self.2);
        self.3.end();
    }
}

enum Next<Q> {
    /// A control handle has changed something.
    Changed,
    Shutdown,
    Drained,
    /// A session is not closed.
    Overdue,
    Ended(Result<SessionEnd, ConsumeError>),
    Accepted(Result<Q, ReceiveError>),
}

/// How the work on a session has ended.
enum SessionEnd {
    Used,
    /// Its lock was lost before a message was delivered.
    LostUnused,
}

/// Handles the messages of one session until it stays empty, its lock is lost, or all stop.
async fn work<Q, S>(
    session: SessionReceiver<Q>,
    service: S,
    mut options: Options,
    mut stopped: watch::Receiver<bool>,
) -> Result<SessionEnd, ConsumeError>
where
    Q: Session,
    S: Service<Message, Response = Disposition> + Clone,
    S::Error: Into<BoxError>,
{
    let (operation, stats, health) = (options.operation, options.stats.clone(), options.health.clone());
    let (shared, info) = (Arc::clone(session.shared()), session.entity_info());
    let mut log = options.log.of_part(Some(shared.id()));
    options.log = options.log.of_part(Some(shared.id()));
    // Its lock is renewed where it receives.
    options.longest_refusal = options.longest_refusal.min(shared.locked().lock / 8);
    let ends = {
        let shared = Arc::clone(&shared);
        let mut stop = Box::pin(async move { stopped.wait_for(|stopped| *stopped).await.is_ok() });
        poll_fn(move |cx| if shared.is_done() { Poll::Ready(true) } else { stop.as_mut().poll(cx) })
    };
    let ended = ConsumerRun::new(session, service, Some(S::clone), options, ends).await;
    let end = if shared.is_lost_unused() { SessionEnd::LostUnused } else { SessionEnd::Used };
    if let Some(shared) = Arc::into_inner(shared) {
        let closed = Timed::new(shared.into_session().close(), operation).await.unwrap_or_else(|unanswered| {
            stats.count_timed_out();
            Err(unanswered.into())
        });
        if let Err(error) = closed
            && !error.is_lock_lost()
        {
            log.session_not_closed(&info, &error);
            health.failed(ConsumerFailure::Close(error.kind()));
        }
    }
    match ended {
        Err(error) if !error.is_session_lost() => Err(error),
        _ => Ok(end),
    }
}
