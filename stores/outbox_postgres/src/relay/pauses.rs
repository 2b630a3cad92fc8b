//! The sessions and destinations that do not take messages, and when each is tried again.

mod lap;

use std::{collections::HashMap, mem, time::Duration};

use consign_core::transport::deadline;
use tokio::time::Instant;

use self::lap::Lap;
pub(super) use self::lap::{Found, Step, name};

/// How many destinations are kept. Beyond that, the next failure forgets the one whose pause ends or has ended first.
const MOST: usize = 1_024;
/// How many sessions are kept, of all destinations together. For one more that fails, its destination pauses.
const MOST_SESSIONS: usize = 1_024;

/// A destination and a session: messages that are sent one after the other.
type Group = (String, Option<String>);

/// Pauses of sessions and destinations.
///
/// What is kept only says when to try again. Each read has the first messages of a group, so that an entry that is lost changes no
/// order.
#[derive(Debug)]
pub(super) struct Pauses {
    first: Duration,
    longest: Duration,
    most: usize,
    most_sessions: usize,
    destinations: HashMap<String, Pause>,
    sessions: HashMap<Group, Pause>,
    /// What the sends of this batch say of their destinations.
    batch: HashMap<String, Tally>,
    lap: Lap,
}

/// Whose messages are read.
#[derive(Debug)]
pub(super) enum Selection {
    /// Nothing fails.
    Oldest,
    /// Those of the next groups.
    Lap(Step),
}

/// The pause of a destination that does not take messages.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Delayed {
    pub(crate) destination: String,
    pub(crate) session: Option<String>,
    pub(crate) failure: Failure,
    pub(crate) pause: Duration,
}

/// A message that was not sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) row: i64,
    pub(crate) message_id: String,
    /// How often sending it has failed.
    pub(crate) attempts: i32,
    pub(crate) error: String,
}

#[derive(Debug)]
struct Pause {
    until: Instant,
    failures: u32,
    /// The number of the last lap that found it.
    seen: u64,
    /// For a destination, the group after which it is continued.
    left_at: Option<String>,
}

#[derive(Debug, Default)]
struct Tally {
    is_answered: bool,
    is_whole: bool,
    /// How many sessions failed that did not fail before.
    new: u32,
    /// The one that failed most often, and its session: it may never be sent.
    failure: Option<(Option<String>, Failure)>,
    /// The longest of its sessions.
    pause: Duration,
}

impl Pause {
    fn new(now: Instant) -> Self {
        Self { until: now, failures: 0, seen: 0, left_at: None }
    }

    /// Begins a pause that is twice as long as the last one.
    fn lengthen(&mut self, first: Duration, longest: Duration, lap: u64, now: Instant) -> Duration {
        let length = length(first, longest, self.failures);
        self.failures = self.failures.saturating_add(1);
        (self.until, self.seen) = (now + length, lap);
        length
    }
}

impl Pauses {
    pub(super) fn new(first: Duration, longest: Duration) -> Self {
        // More than a year overflows instants.
        let (first, longest) = (deadline::clamped(first), deadline::clamped(longest));
        Self {
            first,
            longest,
            most: MOST,
            most_sessions: MOST_SESSIONS,
            destinations: HashMap::new(),
            sessions: HashMap::new(),
            batch: HashMap::new(),
            lap: Lap::new(0, Instant::now()),
        }
    }

    /// A send of a session has failed. `is_whole` if its destination fails, whatever the session.
    pub(super) fn failed(
        &mut self,
        destination: &str,
        session: Option<&str>,
        is_whole: bool,
        failure: Failure,
        now: Instant,
    ) {
        let group = (destination.to_owned(), session.map(str::to_owned));
        let is_new = !self.sessions.contains_key(&group);
        let is_over = is_new && self.sessions.len() >= self.most_sessions;
        let tally = self.batch.entry(destination.to_owned()).or_default();
        tally.new += u32::from(is_new);
        tally.is_whole |= is_whole || is_over;
        if tally.failure.as_ref().is_none_or(|(_, kept)| kept.attempts <= failure.attempts) {
            tally.failure = Some((group.1.clone(), failure));
        }
        if !is_over {
            let pause = self.sessions.entry(group).or_insert_with(|| Pause::new(now));
            let pause = pause.lengthen(self.first, self.longest, self.lap.number, now);
            tally.pause = tally.pause.max(pause);
        }
    }

    /// A destination has taken or refused a message of a session.
    pub(super) fn answered(&mut self, destination: &str, session: Option<&str>) {
        if !self.sessions.is_empty() {
            self.sessions.remove(&(destination.to_owned(), session.map(str::to_owned)));
        }
        self.batch.entry(destination.to_owned()).or_default().is_answered = true;
    }

    /// All sends of a batch have ended. Returns the destinations of which one has failed.
    pub(super) fn batch_ended(&mut self, now: Instant) -> Vec<Delayed> {
        let mut delayed = Vec::new();
        for (destination, mut tally) in mem::take(&mut self.batch) {
            // Several sessions that fail for the first time, or one more of a destination that has taken nothing since its pause.
            let is_down = tally.new > 1 || tally.new > 0 && self.destinations.contains_key(&destination);
            if tally.is_whole || is_down && !tally.is_answered {
                tally.pause = self.pause(&destination, now);
            } else if tally.is_answered {
                self.destinations.remove(&destination);
            }
            if let Some((session, failure)) = tally.failure {
                delayed.push(Delayed { destination, session, failure, pause: tally.pause });
            }
        }
        delayed
    }

    fn pause(&mut self, destination: &str, now: Instant) -> Duration {
        if self.destinations.len() >= self.most && !self.destinations.contains_key(destination) {
            let first = self.destinations.iter().min_by_key(|(_, pause)| pause.until);
            if let Some(first) = first.map(|(destination, _)| destination.clone()) {
                self.destinations.remove(&first);
            }
        }
        let pause = self.destinations.entry(destination.to_owned()).or_insert_with(|| Pause::new(now));
        // The lap passes the rest of it. It would otherwise begin with the same groups each time.
        pause.left_at = self.lap.place_in(destination);
        pause.lengthen(self.first, self.longest, self.lap.number, now)
    }

    /// Returns what is read next. `Err` is when the next pause ends, if no destination can be added before: one whose pause is
    /// forgotten would be tried again at once.
    pub(super) fn select(&self, batch: usize, now: Instant) -> Result<Selection, Instant> {
        if self.is_empty() {
            return Ok(Selection::Oldest);
        }
        let pausing = self.destinations.iter().filter(|(_, pause)| pause.until > now);
        let passing: Vec<_> = pausing.map(|(destination, _)| destination.clone()).collect();
        let most = self.most.saturating_sub(passing.len());
        if let Some(next) = self.next(now).filter(|_| most == 0) {
            return Err(next);
        }
        // Enough to find a batch behind everything that pauses.
        let steps = batch + self.sessions.len() + passing.len();
        Ok(Selection::Lap(Step { after: self.lap.after.clone(), passing, steps, most }))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.destinations.is_empty() && self.sessions.is_empty()
    }

    /// Returns when the next pause ends.
    pub(super) fn next(&self, now: Instant) -> Option<Instant> {
        let pauses = self.destinations.values().chain(self.sessions.values());
        pauses.map(|pause| pause.until).filter(|until| *until > now).min()
    }
}

/// Returns a random time up to the pause after so many failures, and at least half of it.
pub(super) fn length(first: Duration, longest: Duration, failures: u32) -> Duration {
    let doubled = 1_u32.checked_shl(failures).unwrap_or(u32::MAX);
    first.saturating_mul(doubled).min(longest).mul_f64(0.5 + fastrand::f64() / 2.0)
}

#[cfg(test)]
mod tests;
