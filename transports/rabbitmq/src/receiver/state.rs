//! State that a receiver, its leases and its task share.

use std::{
    collections::{HashMap, VecDeque},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use consign_core::{message::LockToken, time::Timestamp};
use futures_util::Stream;
use lapin::Consumer;
use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};

use super::{
    completing::{Completion, Gathered},
    delivered::{Held, Origin, Ticket},
    job::Job,
    source::Source,
};
use crate::{cancels::Subscribed, client, error::Failure};

pub(crate) struct Shared {
    pub(crate) client: Arc<client::Shared>,
    pub(super) source: Source,
    pub(super) changed: Notify,
    state: Mutex<State>,
}

#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "they are independent: of the task, of the receiver, of the channel")]
pub(super) struct State {
    pub(super) is_ended: bool,
    /// Whether the task is dropped, as it is with its runtime.
    is_gone: bool,
    /// When the task looks at the state without a notice.
    pub(super) wakes_at: Option<Instant>,
    /// How many messages the last poll requested; 0 without a waiting receive.
    pub(super) wanted: usize,
    /// Since when there is no waiting receive.
    pub(super) idle_since: Option<Instant>,
    /// Whether the subscription ends without a pause, because no receive follows soon; and who waits for its end.
    pub(super) is_stopping: bool,
    stopped: Option<Waker>,
    /// Whether the task is between two states: an operation on the channel is in progress.
    pub(super) is_stepping: bool,
    pub(super) waker: Option<Waker>,
    pub(super) subscription: Option<Subscription>,
    /// A subscription with this much credit is to replace the present one.
    pub(super) asked: Option<usize>,
    /// The credit of the subscription that is being made.
    pub(super) subscribing: Option<usize>,
    /// The result of the next poll.
    pub(super) failure: Option<Failure>,
    /// Requested messages of a subscription that has ended.
    pub(super) spare: VecDeque<(Arc<Origin>, lapin::message::Delivery)>,
    pub(super) held: HashMap<u64, Held>,
    /// Settlements that are neither held any more nor written.
    pub(super) passing: usize,
    /// The ends of locks, in order: all locks have the same duration.
    pub(super) locks: VecDeque<(Instant, u64)>,
    pub(super) jobs: Vec<Job>,
    /// Completions that the task writes next, by channel.
    pub(super) completions: Vec<Gathered>,
    /// Deliveries that are released after younger ones were.
    pub(super) restores: Vec<Job>,
    /// Recently released deliveries, and when.
    given_back: VecDeque<(Instant, u64)>,
    last_id: u64,
}

/// A consumer at the broker.
pub(super) struct Subscription {
    pub(super) origin: Arc<Origin>,
    pub(super) consumer: Consumer,
    pub(super) subscribed: Subscribed,
    /// When it began, or the last message was dispatched.
    pub(super) used: Instant,
    pub(super) credit: usize,
    /// Unsettled deliveries of it, dispatched or not.
    pub(super) unsettled: usize,
}

impl Shared {
    pub(super) fn new(client: Arc<client::Shared>, source: Source) -> Self {
        Self { client, source, changed: Notify::new(), state: Mutex::default() }
    }

    pub(super) fn state(&self) -> parking_lot::MutexGuard<'_, State> {
        self.state.lock()
    }

    pub(super) fn lock_duration(&self) -> Duration {
        self.source.settings.lock_duration
    }

    /// Records that there is no waiting receive for now.
    pub(super) fn stop(&self) {
        let mut state = self.state();
        state.wanted = 0;
        state.waker = None;
        state.asked = None;
        if state.subscription.is_some() || !state.spare.is_empty() {
            let now = Instant::now();
            state.idle_since = Some(now);
            self.wake_by(&mut state, now + self.client.link.options.linger);
        }
    }

    /// Has the task look at the state at this time, or before.
    pub(super) fn wake_by(&self, state: &mut State, at: Instant) {
        if state.wakes_at.is_none_or(|wakes_at| wakes_at > at) {
            state.wakes_at = Some(at);
            self.changed.notify_one();
        }
    }

    /// Waits until the broker has ended the subscription and has all messages that were not dispatched.
    pub(super) fn poll_stopped(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state();
        if state.has_nothing_ahead() {
            return Poll::Ready(());
        }
        state.stopped = Some(cx.waker().clone());
        if !std::mem::replace(&mut state.is_stopping, true) {
            drop(state);
            self.changed.notify_one();
        }
        Poll::Pending
    }

    /// Records that the receiver is dropped; its leases may not be.
    pub(super) fn end(&self) {
        let mut state = self.state();
        state.wanted = 0;
        state.waker = None;
        state.is_ended = true;
        drop(state);
        self.changed.notify_one();
    }

    /// Records that the task is dropped, and fails what it has not done.
    pub(super) fn go(&self) {
        let mut state = self.state();
        state.is_gone = true;
        let left = (
            std::mem::take(&mut state.jobs),
            std::mem::take(&mut state.restores),
            std::mem::take(&mut state.completions),
        );
        drop(state);
        drop(left);
    }

    /// Takes a delivery that is still held, to settle it.
    pub(super) fn take(&self, key: u64) -> Option<Held> {
        let mut state = self.state();
        state.held.remove(&key)
    }

    /// Completes a delivery that is still held; `None` if its lock is lost.
    pub(super) fn complete(&self, key: u64) -> Option<Completion> {
        let mut state = self.state();
        let held = state.held.remove(&key)?;
        if held.ticket.is_lost() {
            return None;
        }
        let Held { ticket, .. } = held;
        state.settled(&ticket.origin);
        let (completion, is_first) = state.gather(ticket);
        drop(state);
        if is_first {
            self.changed.notify_one();
        }
        Some(completion)
    }

    /// Keeps the channel of a dropped receiver while a settlement is neither held any more nor written.
    pub(super) fn pass(self: &Arc<Self>) -> Passing {
        self.state().passing += 1;
        Passing(Arc::clone(self))
    }

    /// Gives a settlement of more than one step to the task.
    pub(super) fn leave(&self, job: Job) {
        let mut state = self.state();
        if !state.is_gone {
            state.jobs.push(job);
            drop(state);
            self.changed.notify_one();
        }
    }

    /// Releases a delivery. RabbitMQ puts it behind earlier returned ones, at the front of the queue. So if one of these is
    /// younger, it is fetched again.
    pub(super) fn give_back(&self, key: u64, job: Job) {
        /// Further ones stay where they are.
        const MOST: usize = 64;
        const OF_LATE: Duration = Duration::from_secs(1);
        let now = Instant::now();
        let mut state = self.state();
        while state.given_back.front().is_some_and(|(at, _)| now > *at + OF_LATE) || state.given_back.len() > MOST {
            state.given_back.pop_front();
        }
        if state.is_gone {
            return;
        }
        if state.given_back.iter().any(|(_, younger)| *younger > key) {
            state.restores.push(job);
        } else {
            state.jobs.push(job);
        }
        state.given_back.push_back((now, key));
        drop(state);
        self.changed.notify_one();
    }

    /// Extends a lock.
    pub(super) fn renew(&self, key: u64) -> Option<Timestamp> {
        let until = Instant::now() + self.lock_duration();
        let mut state = self.state();
        let held = state.held.get_mut(&key)?;
        if held.ticket.is_lost() {
            return None;
        }
        held.until = until;
        state.lock_until(until, key);
        drop(state);
        Some(self.client.now().saturating_add(self.lock_duration()))
    }

    /// Records that a delivery was settled, which permits another.
    pub(super) fn settled(&self, origin: &Origin) {
        self.state().settled(origin);
    }
}

/// A settlement between the two.
pub(super) struct Passing(Arc<Shared>);

impl Drop for Passing {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.passing -= 1;
        if state.is_ended && state.held.is_empty() && state.passing == 0 {
            drop(state);
            self.0.changed.notify_one();
        }
    }
}

impl State {
    /// Polls for the next message that the broker has delivered.
    pub(super) fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(Arc<Origin>, lapin::message::Delivery), Failure>> {
        if let Some(spare) = self.spare.pop_front() {
            return Poll::Ready(Ok(spare));
        }
        let Some(subscription) = &mut self.subscription else { return Poll::Pending };
        match Pin::new(&mut subscription.consumer).poll_next(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Some(Ok(delivery))) => {
                subscription.unsettled += 1;
                Poll::Ready(Ok((Arc::clone(&subscription.origin), delivery)))
            }
            Poll::Ready(Some(Err(error))) => {
                self.subscription = None;
                Poll::Ready(Err(error.into()))
            }
            // The broker has ended it, as it does when the queue is deleted. Subscribing again shows the reason.
            Poll::Ready(None) => {
                self.subscription = None;
                Poll::Pending
            }
        }
    }

    fn settled(&mut self, origin: &Origin) {
        // A message that takes its place may be in transit.
        if let Some(since) = &mut self.idle_since {
            *since = Instant::now();
        }
        let id = origin.subscription;
        if let Some(present) = self.subscription.as_mut().filter(|present| present.origin.subscription == id) {
            present.unsettled = present.unsettled.saturating_sub(1);
        }
    }

    /// Has the task write a completion. Returns whether the task does not know of it.
    fn gather(&mut self, mut ticket: Ticket) -> (Completion, bool) {
        for gathered in &mut self.completions {
            match gathered.add(ticket) {
                Ok(()) => return (gathered.completion(), false),
                Err(other) => ticket = other,
            }
        }
        let gathered = Gathered::new(ticket);
        let completion = gathered.completion();
        if !self.is_gone {
            self.completions.push(gathered);
        }
        (completion, true)
    }

    pub(super) fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// Returns the deliveries to restore, and how many messages may have to be fetched for that.
    pub(super) fn take_restores(&mut self) -> (Vec<Job>, usize) {
        (std::mem::take(&mut self.restores), self.given_back.len())
    }

    /// Returns whether the credit is so small for the request that another subscription is due.
    pub(super) fn lacks_credit(&self, wanted: usize) -> bool {
        if self.asked == Some(wanted) {
            return false;
        }
        let present = self.subscription.as_ref().map(|present| present.credit.saturating_sub(present.unsettled));
        match present.or(self.subscribing) {
            None => true,
            Some(open) => open == 0 || open * 2 <= wanted,
        }
    }

    /// Records the end of a lock. Most are settled before, and their entries are removed soon.
    pub(super) fn lock_until(&mut self, until: Instant, key: u64) {
        if self.locks.len() > 64 + 2 * self.held.len() {
            let held = &self.held;
            self.locks.retain(|(at, key)| held.get(key).is_some_and(|held| held.until == *at));
        }
        self.locks.push_back((until, key));
    }

    fn has_nothing_ahead(&self) -> bool {
        self.subscription.is_none() && self.spare.is_empty() && !self.is_stepping
    }

    /// Returns who waits for the end of the subscription, if it has ended.
    pub(super) fn take_stopped(&mut self) -> Option<Waker> {
        if self.has_nothing_ahead() { self.stopped.take() } else { None }
    }

    pub(super) fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// The token of a lock: the queue's channel does not matter, because every lock of this process has another key.
pub(super) fn token(shared: &Arc<Shared>, key: u64) -> LockToken {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&shared.client.salt.to_be_bytes());
    let place = Arc::as_ptr(shared).addr() as u64;
    bytes[8..].copy_from_slice(&(place.rotate_left(24) ^ key).to_be_bytes());
    LockToken::from_bytes(bytes)
}
