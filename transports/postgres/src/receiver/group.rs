//! Receivers of one source in one process: what those that wait want is received together.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Weak},
    time::Duration,
};

use consign_core::transport::ReceiveError;
use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};

use super::{
    Deliveries, Source,
    kept::{Answer, Kept},
    receive,
    shares::shares,
};
use crate::{
    Inner,
    fetch::{Call, Work},
};

/// The maximum of messages of one statement.
pub(super) const BATCH: usize = 1_000;

/// What the receivers of a group have in common: the entity, its part, whether messages are deleted, and how long a lock of the
/// entity held when it was looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key(i64, i16, bool, Duration);

/// The groups that have receivers.
#[derive(Default)]
pub(crate) struct Groups(Mutex<HashMap<Key, Weak<Group>>>);

impl Groups {
    /// Returns the group of a source. A session has one of its own.
    pub(super) fn of(&self, source: Source) -> Arc<Group> {
        if source.session.is_some() {
            return Group::new(source);
        }
        let key = Key(source.entity.id, source.part, source.deletes, source.entity.lock);
        let mut all = self.0.lock();
        if let Some(group) = all.get(&key).and_then(Weak::upgrade) {
            return group;
        }
        if all.len() > 64 && all.len().is_power_of_two() {
            all.retain(|_, group| group.strong_count() > 0);
        }
        let group = Group::new(source);
        all.insert(key, Arc::downgrade(&group));
        group
    }
}

pub(super) struct Group {
    pub(super) source: Source,
    state: Mutex<State>,
    /// A call has joined, or was cancelled.
    changed: Arc<Notify>,
}

#[derive(Default)]
struct State {
    /// Calls without an answer, the oldest first.
    waiting: VecDeque<Waiting>,
    /// Whether a task receives for them.
    is_running: bool,
    /// Whether one of them has joined since the last statement began.
    has_joined: bool,
}

struct Waiting {
    work: Work<Answer>,
    max: usize,
    not_before: Option<Instant>,
    kept: Option<Arc<Kept>>,
    /// Whether the last statement receives for it too.
    is_asked: bool,
}

impl Waiting {
    fn is_ready(&self, now: Instant) -> bool {
        self.not_before.is_none_or(|instant| instant <= now)
    }
}

impl Group {
    fn new(source: Source) -> Arc<Self> {
        Arc::new(Self { source, state: Mutex::default(), changed: Arc::default() })
    }

    /// Receives 1 to `max` messages, and no more than [`BATCH`], not before that instant. `kept` is where they go if they are deleted and the call is
    /// cancelled.
    pub(super) fn join(
        self: &Arc<Self>,
        inner: &Arc<Inner>,
        max: usize,
        not_before: Option<Instant>,
        kept: Option<Arc<Kept>>,
    ) -> Arc<Call<Answer>> {
        let call = Call::new(Arc::clone(&self.changed));
        let work = Work::new(Arc::clone(&call));
        let is_running = {
            let mut state = self.state.lock();
            state.waiting.push_back(Waiting { work, max: max.min(BATCH), not_before, kept, is_asked: false });
            state.has_joined = true;
            std::mem::replace(&mut state.is_running, true)
        };
        if is_running {
            self.changed.notify_one();
        } else {
            let running = Running { group: Arc::clone(self), is_over: false };
            tokio::spawn(receive::run(Arc::clone(inner), running));
        }
        call
    }
}

impl State {
    /// Removes the cancelled calls and returns them.
    fn take_cancelled(&mut self) -> VecDeque<Waiting> {
        if self.waiting.iter().all(|waiting| waiting.work.is_wanted()) {
            return VecDeque::new();
        }
        let (wanted, cancelled) = std::mem::take(&mut self.waiting).into_iter().partition(|one| one.work.is_wanted());
        self.waiting = wanted;
        cancelled
    }

    /// Takes those of these calls that get some of `left` messages, and how many each.
    fn take_shares(&mut self, left: &mut usize, is_one: impl Fn(&Waiting) -> bool) -> Vec<(Waiting, usize)> {
        let wants: Vec<usize> = self.waiting.iter().map(|one| if is_one(one) { one.max } else { 0 }).collect();
        let mut taken = Vec::new();
        let shares = shares(&wants, *left);
        for (waiting, share) in std::mem::take(&mut self.waiting).into_iter().zip(shares) {
            if share == 0 {
                self.waiting.push_back(waiting);
            } else {
                *left -= share;
                taken.push((waiting, share));
            }
        }
        taken
    }
}

/// The task that receives for a group. If it ends before the group is left, each call is made again.
pub(super) struct Running {
    group: Arc<Group>,
    is_over: bool,
}

/// What the task does next.
pub(super) enum Next {
    /// So many messages are wanted.
    Receive(usize),
    /// All calls are to wait, after a failure.
    Wait(Instant),
    /// No call waits.
    End,
}

impl Running {
    pub(super) fn source(&self) -> &Source {
        &self.group.source
    }

    pub(super) fn next(&mut self) -> Next {
        let now = Instant::now();
        let mut state = self.group.state.lock();
        let cancelled = state.take_cancelled();
        let (later, ready): (Vec<_>, Vec<_>) = state.waiting.iter().partition(|one| !one.is_ready(now));
        let next = match later.iter().filter_map(|one| one.not_before).min() {
            _ if !ready.is_empty() => Next::Receive(ready.iter().map(|one| one.max).sum()),
            Some(instant) => Next::Wait(instant),
            None => {
                state.is_running = false;
                self.is_over = true;
                Next::End
            }
        };
        drop(state);
        drop(cancelled);
        next
    }

    /// Returns how many messages the calls want for which the next statement receives.
    pub(super) fn ask(&self) -> usize {
        let now = Instant::now();
        let mut state = self.group.state.lock();
        state.has_joined = false;
        let mut max = 0;
        for waiting in &mut state.waiting {
            waiting.is_asked = waiting.is_ready(now);
            if waiting.is_asked {
                max += waiting.max;
            }
        }
        max
    }

    /// Distributes messages: first to the calls that they were received for, then to those that have joined meanwhile. Messages
    /// that are left are released.
    pub(super) fn give_out(&self, deliveries: Deliveries) {
        let now = Instant::now();
        let mut left = deliveries.len();
        let (cancelled, served) = {
            let mut state = self.group.state.lock();
            let cancelled = state.take_cancelled();
            let mut served = state.take_shares(&mut left, |one| one.is_asked);
            if left > 0 {
                served.extend(state.take_shares(&mut left, |one| one.is_ready(now)));
            }
            (cancelled, served)
        };
        let mut deliveries = deliveries.into_iter();
        for (Waiting { work, kept, .. }, share) in served {
            let answer = Answer { deliveries: deliveries.by_ref().take(share).collect(), kept };
            if let Some(release) = work.end(Ok(answer)) {
                tokio::spawn(release);
            }
        }
        for Waiting { work, max, kept, .. } in cancelled.into_iter().filter(|one| one.is_asked) {
            let deliveries: Deliveries = deliveries.by_ref().take(max).collect();
            if !deliveries.is_empty()
                && let Some(release) = work.end(Ok(Answer { deliveries, kept }))
            {
                tokio::spawn(release);
            }
        }
    }

    /// Reports a failure to all calls for which the last statement was to receive.
    pub(super) fn fail(&self, error: ReceiveError) {
        let mut failed: VecDeque<Waiting> = {
            let mut state = self.group.state.lock();
            let (failed, others) = std::mem::take(&mut state.waiting).into_iter().partition(|one| one.is_asked);
            state.waiting = others;
            failed
        };
        if failed.len() == 1
            && let Some(only) = failed.pop_front()
        {
            only.work.end(Err(error));
            return;
        }
        let error = Arc::new(error);
        for one in failed {
            let detail = error.description().unwrap_or_default().to_owned();
            let same = ReceiveError::new(error.kind()).with_detail(detail).with_retryable(error.is_retryable());
            one.work.end(Err(same.with_source(Arc::clone(&error))));
        }
    }

    /// Waits until a call has joined or was cancelled, or until `signal`.
    pub(super) async fn changed_or(&self, signal: impl Future<Output = ()>) {
        tokio::select! {
            () = signal => {}
            () = self.group.changed.notified() => {}
        }
    }

    /// Waits for `work` as long as a call waits.
    pub(super) async fn while_wanted<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return Some(done),
                () = self.group.changed.notified() => {
                    if !self.is_wanted() {
                        return None;
                    }
                }
            }
        }
    }

    /// Waits until a call has joined since the last statement, or none waits, or until `signal`.
    pub(super) async fn pause(&self, signal: impl Future<Output = ()>) {
        let mut signal = std::pin::pin!(signal);
        while self.is_wanted() && !self.group.state.lock().has_joined {
            tokio::select! {
                () = &mut signal => return,
                () = self.group.changed.notified() => {}
            }
        }
    }

    fn is_wanted(&self) -> bool {
        let mut state = self.group.state.lock();
        let cancelled = state.take_cancelled();
        let is_wanted = !state.waiting.is_empty();
        drop(state);
        drop(cancelled);
        is_wanted
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let left = {
            let mut state = self.group.state.lock();
            state.is_running = false;
            std::mem::take(&mut state.waiting)
        };
        drop(left);
    }
}
