//! A slot that this client reads: its held sessions, and the waiting messages.

mod pin;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    task::Waker,
    time::Duration,
};

use consign_core::{
    settlement::{Changes, DeadLetter, DeadLetterReason},
    time::Timestamp,
};
use parking_lot::{Mutex, MutexGuard};
use tokio::{
    sync::{Notify, watch},
    time::Instant,
};

pub(super) use self::pin::Pin;
use super::{
    layout,
    ledger::Ledger,
    work::{Job, Work},
};
use crate::{
    client,
    error::Failure,
    log,
    receiver::{Source, delivered::Held},
};

/// For how long a slot is kept open for the next accept, if the accept that it was opened for has ended before it was open.
pub(super) const KEPT: Duration = Duration::from_secs(1);

pub(super) struct Slot {
    pub(super) client: Arc<client::Shared>,
    /// The entity.
    pub(super) source: Source,
    pub(super) index: u16,
    pub(super) stage: watch::Sender<Stage>,
    /// Notifies the slot's task.
    pub(super) changed: Notify,
    state: Mutex<State>,
}

#[derive(Clone, Debug)]
pub(super) enum Stage {
    Opening,
    /// Its messages arrive since then.
    Open(Instant),
    Failed(Failure),
    /// Another may have it.
    Ended,
}

#[derive(Default)]
pub(super) struct State {
    pins: usize,
    /// When it was opened, or a pin was dropped after that, if no accept has looked at its first messages.
    unseen: Option<Instant>,
    holders: usize,
    /// It is not in use any more, or lost: no session uses it.
    pub(super) is_over: bool,
    lines: HashMap<String, Line>,
    pub(super) ledger: Ledger,
    pub(super) jobs: Vec<Job>,
    /// How many messages have arrived.
    pub(super) arrived: usize,
    /// Whether a message of another slot was reported.
    has_warned: bool,
    /// Whether another client gets the slot when the sessions that are held are given up.
    pub(super) is_promised: bool,
    last_hold: u64,
}

/// The messages of one session.
#[derive(Default)]
pub(super) struct Line {
    /// Messages to be dispatched, by delivery tag, which is the order of the queue.
    pub(super) ready: BTreeMap<u64, Held>,
    pub(super) holder: Option<Holder>,
}

pub(super) struct Holder {
    pub(super) hold: u64,
    pub(super) until: Instant,
    pub(super) until_utc: Timestamp,
    /// Dispatched messages.
    pub(super) delivered: BTreeMap<u64, Held>,
    pub(super) waker: Option<Waker>,
}

impl Slot {
    pub(super) fn new(client: Arc<client::Shared>, source: Source, index: u16) -> (Arc<Self>, Pin) {
        let slot = Arc::new(Self {
            client,
            source,
            index,
            stage: watch::Sender::new(Stage::Opening),
            changed: Notify::new(),
            state: Mutex::new(State { pins: 1, unseen: Some(Instant::now()), ..State::default() }),
        });
        (Arc::clone(&slot), Pin::new(slot))
    }

    /// Keeps the slot open, unless it is about to be given up.
    pub(super) fn pin(self: &Arc<Self>) -> Option<Pin> {
        let mut state = self.state();
        if state.is_over {
            return None;
        }
        state.pins += 1;
        Some(Pin::new(Arc::clone(self)))
    }

    /// As [`pin`](Self::pin), to accept the next session. A slot that is promised to another client has none.
    pub(super) fn pin_next(self: &Arc<Self>) -> Option<Pin> {
        if self.state().is_promised { None } else { self.pin() }
    }

    /// Handles the request of another client that waits for sessions and has this many slots. If that is fewer than here, it
    /// gets this slot.
    pub(super) fn request(&self, theirs: usize) {
        let (kept, promised) = self.client.slots.count(&self.source);
        // Promised slots will be theirs soon.
        if kept > theirs.saturating_add(promised).saturating_add(1) {
            self.state().is_promised = true;
            self.changed.notify_one();
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn slots(&self) -> u16 {
        self.source.settings.session_slots
    }

    pub(super) fn queue(&self) -> String {
        layout::queue(&self.source.path, self.index, self.slots())
    }

    pub(super) fn notes(&self) -> String {
        layout::notes(&self.source.path, self.index, self.slots())
    }

    pub(super) fn lock(&self) -> String {
        layout::lock(&self.source.path, self.index, self.slots())
    }

    /// Records that messages arrive.
    pub(super) fn opened(&self) {
        self.state().stay_unseen();
        self.stage.send_replace(Stage::Open(Instant::now()));
    }

    /// Returns whether no accept has looked at its first messages.
    pub(super) fn is_unseen(&self) -> bool {
        self.state().unseen.is_some()
    }

    /// Returns until when the slot is kept open without a pin and a holder.
    pub(super) fn kept_until(&self) -> Option<Instant> {
        self.state().kept_until()
    }

    /// Waits until another client may have it.
    pub(super) async fn ended(&self) {
        let is_over = |stage: &Stage| matches!(stage, Stage::Ended | Stage::Failed(_));
        // The sender is here.
        let _ = self.stage.subscribe().wait_for(is_over).await;
    }

    /// Adds a message that the broker has delivered.
    pub(super) fn arrive(&self, mut held: Held) {
        let mut state = self.state();
        state.arrived += 1;
        let Some(id) = held.message.session_id().map(str::to_owned) else {
            // Another publisher's message, which belongs to no session.
            let dead_letter = DeadLetter::new(DeadLetterReason::SessionIdIsNull, "");
            log::dead_lettered(&self.source.path, &dead_letter);
            state.jobs.push(Job::new("", Work::Refuse(held, Box::new(dead_letter))));
            self.changed.notify_one();
            return;
        };
        if held.facts.exceeds_limits {
            let dead_letter = DeadLetter::header_size_exceeded();
            log::dead_lettered(&self.source.path, &dead_letter);
            state.jobs.push(Job::new(&id, Work::Refuse(held, Box::new(dead_letter))));
            self.changed.notify_one();
            return;
        }
        if layout::slot_of(&id, self.slots()) != self.index {
            if !std::mem::replace(&mut state.has_warned, true) {
                log::wrong_slot(&self.source.path, &self.queue());
            }
            state.jobs.push(Job::new(&id, Work::Move(held)));
            self.changed.notify_one();
            return;
        }
        if let Some(failed) = state.ledger.get(&id).and_then(|record| record.failures.get(&held.facts.number)) {
            held.facts.failed = held.facts.failed.max(*failed);
        }
        let line = state.lines.entry(id).or_default();
        line.ready.insert(held.ticket.tag, held);
        match &mut line.holder {
            Some(holder) => holder.waker.take().into_iter().for_each(Waker::wake),
            None => self.client.slots.changed.notify_waiters(),
        }
    }

    /// Returns the oldest message of a session without a holder: its number and the session.
    pub(super) fn oldest(&self) -> Option<(u64, String)> {
        let state = self.state();
        let free = state.lines.iter().filter(|(_, line)| line.holder.is_none());
        let first = free.filter_map(|(id, line)| Some((line.ready.first_key_value()?, id)));
        first.min_by_key(|((tag, _), _)| **tag).map(|((_, held), id)| (held.facts.number, id.clone()))
    }

    /// Gives up all sessions: the broker redelivers their messages.
    pub(super) fn lose(&self) {
        let mut state = self.state();
        state.is_over = true;
        for (_, line) in state.lines.drain() {
            line.holder.and_then(|holder| holder.waker).into_iter().for_each(Waker::wake);
        }
        state.holders = 0;
    }

    /// Ends the locks that have run out.
    pub(super) fn end_locks(&self, now: Instant) {
        let mut state = self.state();
        let over = |line: &Line| line.holder.as_ref().is_some_and(|holder| holder.until <= now);
        let ids: Vec<String> = state.lines.iter().filter(|(_, line)| over(line)).map(|(id, _)| id.clone()).collect();
        for id in ids {
            let Some(holder) = state.lines.get_mut(&id).and_then(|line| line.holder.take()) else { continue };
            for held in holder.delivered.into_values() {
                self.fail(&mut state, &id, held, Changes::NONE, None);
            }
            holder.waker.into_iter().for_each(Waker::wake);
            state.holders -= 1;
            state.tidy(&id);
            self.client.slots.changed.notify_waiters();
        }
    }

    /// Returns when the next lock runs out.
    pub(super) fn next_end(&self) -> Option<Instant> {
        let state = self.state();
        state.lines.values().filter_map(|line| line.holder.as_ref()).map(|holder| holder.until).min()
    }

    /// Returns whether the slot is not in use any more. From then on it cannot be pinned.
    pub(super) fn is_left(&self) -> bool {
        self.state().is_left()
    }

    /// Returns whether no job is left.
    pub(super) fn is_done(&self) -> bool {
        let mut state = self.state();
        state.is_left() && state.jobs.is_empty()
    }

    pub(super) fn has_messages(&self) -> bool {
        self.state().lines.values().any(|line| !line.ready.is_empty())
    }
}

impl State {
    /// Begins the time again for which a slot that no accept has looked at is kept open.
    fn stay_unseen(&mut self) {
        self.unseen = self.unseen.map(|_| Instant::now());
    }

    /// As [`Slot::kept_until`]. A time that is over would wake the task of a slot with holders again and again.
    fn kept_until(&self) -> Option<Instant> {
        self.unseen.filter(|_| self.pins == 0 && self.holders == 0).map(|at| at + KEPT)
    }

    fn is_left(&mut self) -> bool {
        let is_kept = !self.is_promised && self.unseen.is_some_and(|at| at.elapsed() < KEPT);
        self.is_over |= self.pins == 0 && self.holders == 0 && !is_kept;
        self.is_over
    }

    pub(super) fn holder(&mut self, id: &str, hold: u64) -> Option<(&mut BTreeMap<u64, Held>, &mut Holder)> {
        let line = self.lines.get_mut(id)?;
        let holder = line.holder.as_mut().filter(|holder| holder.hold == hold && holder.until > Instant::now())?;
        Some((&mut line.ready, holder))
    }

    /// Returns a message to its place in its session.
    pub(super) fn put_back(&mut self, id: &str, held: Held) {
        let line = self.lines.entry(id.to_owned()).or_default();
        line.ready.insert(held.ticket.tag, held);
        line.holder.as_mut().and_then(|holder| holder.waker.take()).into_iter().for_each(Waker::wake);
    }

    /// Removes a holder, without a failure.
    pub(super) fn give_up(&mut self, id: &str, hold: u64) -> bool {
        let Some(line) = self.lines.get_mut(id) else { return false };
        let Some(holder) = line.holder.take_if(|holder| holder.hold == hold) else { return false };
        line.ready.extend(holder.delivered);
        self.holders -= 1;
        self.tidy(id);
        true
    }

    /// Removes a session without a holder, unless something is left of it. The log has its record.
    fn tidy(&mut self, id: &str) {
        if self.ledger.get(id).is_some_and(|record| record.is_dirty) {
            self.jobs.push(Job::new(id, Work::Record));
        }
        if self.lines.get(id).is_some_and(|line| line.holder.is_none() && line.ready.is_empty()) {
            self.lines.remove(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(id: &str) -> State {
        let mut state = State { holders: 1, last_hold: 1, ..State::default() };
        let (until, until_utc) = (Instant::now() + std::time::Duration::from_secs(60), Timestamp::MAX);
        let holder = Holder { hold: 1, until, until_utc, delivered: BTreeMap::new(), waker: None };
        state.lines.insert(id.into(), Line { ready: BTreeMap::new(), holder: Some(holder) });
        state
    }

    /// A slot may be open for long, and see many sessions.
    #[test]
    fn failures_of_settled_messages_are_forgotten() {
        let mut state = held("a");
        state.ledger.change("a", |record| {
            record.failures.insert(7, 1);
        });
        state.ledger.note("a", Timestamp::default());
        state.ledger.settled("a", 7);
        assert!(!state.give_up("a", 2) && state.give_up("a", 1) && !state.give_up("a", 1));
        assert!(state.lines.is_empty() && state.is_left());
        // A record is written to the log, and then nothing is left.
        let jobs = std::mem::take(&mut state.jobs);
        assert!(matches!(&jobs[..], [Job { work: Work::Record, .. }]));
        state.ledger.note("a", Timestamp::default());
        assert_eq!(state.ledger.get("a"), None);
        assert!(state.ledger.dirty(Timestamp::default()).is_empty());
    }

    #[test]
    fn a_slot_with_a_holder_does_not_wait_for_the_next_accept() {
        let mut state = held("a");
        state.unseen = Some(Instant::now());
        assert_eq!(state.kept_until(), None);
        assert!(state.give_up("a", 1) && state.kept_until().is_some());
    }

    /// Rules: N-06.
    #[test]
    fn a_lock_that_is_over_is_no_one_s() {
        let mut state = held("a");
        assert!(state.holder("a", 1).is_some() && state.holder("a", 2).is_none() && state.holder("b", 1).is_none());
        state.lines.get_mut("a").unwrap().holder.as_mut().unwrap().until = Instant::now();
        assert!(state.holder("a", 1).is_none());
    }
}
