//! The destinations that do not take messages, and when each is tried again.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use consign_core::transport::deadline;
use tokio::time::Instant;

use super::rows::Waiting;

/// How many destinations are kept. Beyond that, the next failure forgets the one whose pause ends or has ended first.
const MOST: usize = 1_024;
/// How many sessions of a destination are kept. Those beyond do not keep its pauses long.
const MOST_SESSIONS: usize = 1_024;
/// The smallest random share of the destinations that are not kept is one of two to the power of this.
const SMALLEST_SHARE: u32 = 12;

/// Pauses of destinations.
#[derive(Debug)]
pub(super) struct Pauses {
    first: Duration,
    longest: Duration,
    most: usize,
    all: HashMap<String, Pause>,
    turn: Turn,
    /// More destinations fail than are kept.
    is_over: bool,
}

/// Whose rows are read. The oldest rows may all be of destinations that fail, each time that their pauses have ended: if a read
/// leaves rows behind, the next two are of other destinations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// All destinations that do not pause.
    All,
    /// Those that have not failed.
    Others,
    /// The one whose pause ended first.
    First,
}

/// The destinations of a read.
#[derive(Debug)]
pub(super) struct Selection {
    turn: Turn,
    /// The destinations whose rows are read, if `is_only`, and otherwise those whose rows are not.
    pub(super) listed: Vec<String>,
    pub(super) is_only: bool,
    /// A random share of the destinations: those whose hash with this seed has none of the bits.
    pub(super) share: Option<(i64, i64)>,
    /// How many destinations may be sent to.
    most: usize,
}

impl Selection {
    /// Keeps the rows of as many destinations as may be sent to, all rows of each. Returns whether rows may be left behind,
    /// of those that were found, or after a batch of them.
    pub(super) fn limit(&self, rows: &mut Vec<Waiting>, found: usize, batch: usize) -> bool {
        let mut sent_to = HashSet::new();
        rows.retain(|row| {
            if sent_to.len() < self.most {
                sent_to.insert(row.destination.clone());
            }
            sent_to.contains(&row.destination)
        });
        rows.len() < found || found >= batch
    }

    pub(super) fn is_all(&self) -> bool {
        self.turn == Turn::All
    }

    /// Every message that waits is read.
    pub(super) fn is_everything(&self) -> bool {
        self.is_all() && self.listed.is_empty()
    }
}

#[derive(Debug)]
struct Pause {
    until: Instant,
    failures: u32,
    /// The sessions whose last send failed. As long as there is one, another session that is sent does not end the failures.
    failing: HashSet<Option<String>>,
}

impl Pauses {
    pub(super) fn new(first: Duration, longest: Duration) -> Self {
        // More than a year overflows instants.
        let (first, longest) = (deadline::clamped(first), deadline::clamped(longest));
        Self { first, longest, most: MOST, all: HashMap::new(), turn: Turn::All, is_over: false }
    }

    /// Begins a pause, twice as long as the last one of the destination. `None` if it pauses already.
    pub(super) fn begin(&mut self, destination: &str, session: Option<&str>, now: Instant) -> Option<Duration> {
        if self.all.len() >= self.most && !self.all.contains_key(destination) {
            self.forget_one();
        }
        let new = || Pause { until: now, failures: 0, failing: HashSet::new() };
        let pause = self.all.entry(destination.to_owned()).or_insert_with(new);
        if pause.failing.len() < MOST_SESSIONS {
            pause.failing.insert(session.map(str::to_owned));
        }
        if pause.until > now {
            return None;
        }
        let length = length(self.first, self.longest, pause.failures);
        pause.failures = pause.failures.saturating_add(1);
        pause.until = now + length;
        Some(length)
    }

    /// A destination that does not pause has answered for a session. If this was its last failing one, its pauses begin anew.
    pub(super) fn end(&mut self, destination: &str, session: Option<&str>, now: Instant) {
        let Some(pause) = self.all.get_mut(destination).filter(|pause| pause.until <= now) else { return };
        pause.failing.retain(|failing| failing.as_deref() != session);
        if pause.failing.is_empty() {
            self.all.remove(destination);
            self.is_over = false;
        }
    }

    /// Forgets the destination whose pause ends first, or has ended.
    fn forget_one(&mut self) {
        let first = self.all.iter().min_by_key(|(_, pause)| pause.until).map(|(destination, _)| destination.clone());
        if let Some(first) = first {
            self.all.remove(&first);
            self.is_over = true;
        }
    }

    /// No message waits.
    pub(super) fn clear(&mut self) {
        self.all.clear();
        self.is_over = false;
    }

    /// Returns the destinations that pause.
    pub(super) fn destinations(&self, now: Instant) -> Vec<&str> {
        self.all.iter().filter(|(_, pause)| pause.until > now).map(|(destination, _)| destination.as_str()).collect()
    }

    /// Returns whose rows are read next. `Err` is when the next pause ends, if no destination can be added before: one whose pause
    /// is forgotten would be tried again at once.
    pub(super) fn select(&self, now: Instant) -> Result<Selection, Instant> {
        let most = self.most.saturating_sub(self.all.values().filter(|pause| pause.until > now).count());
        if let Some(next) = self.next(now).filter(|_| most == 0) {
            return Err(next);
        }
        let ended = self.all.iter().filter(|(_, pause)| pause.until <= now).min_by_key(|(_, pause)| pause.until);
        // If no pause has ended, all are the others.
        let (turn, listed) = match (self.turn, ended) {
            (Turn::Others, Some(_)) => (Turn::Others, self.all.keys().cloned().collect()),
            (Turn::First, Some((first, _))) => (Turn::First, vec![first.clone()]),
            _ => (Turn::All, self.destinations(now).into_iter().map(str::to_owned).collect()),
        };
        // Each that fails is kept in place of another one, whose rows may be older: in the order of the rows, the newest would wait for
        // ever.
        let share = (self.is_over && turn == Turn::Others)
            .then(|| (fastrand::i64(..), (1_i64 << fastrand::u32(..=SMALLEST_SHARE)) - 1));
        Ok(Selection { turn, listed, is_only: turn == Turn::First, share, most })
    }

    /// Rows were read.
    pub(super) fn selected(&mut self, selection: &Selection, is_empty: bool, leaves_rows: bool) {
        self.turn = match selection.turn {
            Turn::All if leaves_rows => Turn::Others,
            Turn::Others => Turn::First,
            Turn::All | Turn::First => Turn::All,
        };
        if is_empty && selection.is_only {
            // No message of it waits.
            selection.listed.iter().for_each(|destination| drop(self.all.remove(destination)));
        }
    }

    /// A read has failed. It may have passed more rows than it had time for, and would fail again. The oldest rows are found at
    /// once, unless they are of destinations that pause.
    pub(super) fn read_failed(&mut self) {
        self.turn = Turn::All;
    }

    /// Returns when the next pause ends.
    pub(super) fn next(&self, now: Instant) -> Option<Instant> {
        self.all.values().map(|pause| pause.until).filter(|until| *until > now).min()
    }
}

/// Returns a random time up to the pause after so many failures, and at least half of it.
pub(super) fn length(first: Duration, longest: Duration, failures: u32) -> Duration {
    let doubled = 1_u32.checked_shl(failures).unwrap_or(u32::MAX);
    first.saturating_mul(doubled).min(longest).mul_f64(0.5 + fastrand::f64() / 2.0)
}

#[cfg(test)]
mod tests;
