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
    /// Keeps the rows of as many destinations as may be sent to, all rows of each. Returns whether rows may be left behind.
    pub(super) fn limit(&self, rows: &mut Vec<Waiting>, batch: u32) -> bool {
        let read = rows.len();
        let mut sent_to = HashSet::new();
        rows.retain(|row| {
            if sent_to.len() < self.most {
                sent_to.insert(row.destination.clone());
            }
            sent_to.contains(&row.destination)
        });
        rows.len() < read || u32::try_from(read).is_ok_and(|read| read >= batch)
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
mod tests {
    use std::hash::{DefaultHasher, Hash, Hasher};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_and_end() {
        let mut pauses = Pauses::new(Duration::from_millis(100), Duration::from_secs(1));
        let mut now = Instant::now();
        let mut lengths = Vec::new();
        for _ in 0..8 {
            lengths.push(pauses.begin("orders", None, now).unwrap());
            assert_eq!(pauses.begin("orders", None, now), None, "one failure of several at once counts");
            assert_eq!(
                (pauses.destinations(now), pauses.next(now)),
                (vec!["orders"], Some(now + lengths[lengths.len() - 1]))
            );
            pauses.end("orders", None, now);
            now += Duration::from_secs(1);
            assert_eq!((pauses.destinations(now).len(), pauses.next(now)), (0, None));
        }
        assert!(lengths[0] <= Duration::from_millis(100) && lengths[7] >= Duration::from_millis(500), "{lengths:?}");
        assert!(lengths.iter().all(|length| *length <= Duration::from_secs(1)), "{lengths:?}");
        pauses.end("orders", None, now);
        assert!(pauses.begin("orders", None, now).unwrap() <= Duration::from_millis(100));
        for other in 0..2 * MOST {
            pauses.begin(&other.to_string(), None, now);
            pauses.begin("orders", Some(&other.to_string()), now);
        }
        assert!(pauses.all.len() <= MOST && pauses.all["orders"].failing.len() <= MOST_SESSIONS);
    }

    #[tokio::test(start_paused = true)]
    async fn one_destination_is_forgotten_for_one_more_and_not_all() {
        let mut pauses = Pauses::new(Duration::from_secs(100), Duration::from_secs(1_000));
        let now = Instant::now();
        for failures in 0..3 {
            pauses.begin("orders", None, now + failures * Duration::from_secs(1_000));
        }
        let now = now + Duration::from_secs(2_000);
        for other in 0..2 * MOST {
            pauses.begin(&other.to_string(), None, now);
        }
        assert_eq!(pauses.all.len(), MOST);
        assert_eq!(pauses.all["orders"].failures, 3, "its pause ends last");
    }

    /// Rules: X-47.
    #[tokio::test(start_paused = true)]
    async fn a_destination_that_pauses_is_not_tried_again_for_others_that_fail() {
        let mut pauses = Pauses::new(Duration::from_secs(100), Duration::from_secs(1_000));
        let now = Instant::now();
        let waiting: Vec<_> = (0..3 * MOST).map(|number| number.to_string()).collect();
        let mut tried = HashSet::new();
        let next = loop {
            let rows = match read(&mut pauses, &waiting, 100, now) {
                Ok(rows) => rows,
                Err(next) => break next,
            };
            for row in rows {
                pauses.begin(&row.destination, None, now);
                assert!(tried.insert(row.destination), "it is tried again in its pause");
            }
        };
        assert_eq!((tried.len(), Some(next)), (MOST, pauses.next(now)));
        assert_eq!(read(&mut pauses, &waiting, 100, next).unwrap().len(), 1);
        pauses.clear();
        assert_eq!(read(&mut pauses, &waiting, 100, now).unwrap().len(), 100);
    }

    /// Reads as a relay does. The hash is another one.
    fn read(pauses: &mut Pauses, waiting: &[String], batch: usize, now: Instant) -> Result<Vec<Waiting>, Instant> {
        loop {
            let selection = pauses.select(now)?;
            let is_selected = |destination: &&String| {
                let (seed, bits) = selection.share.unwrap_or((0, 0));
                let mut hasher = DefaultHasher::new();
                (seed, destination).hash(&mut hasher);
                selection.listed.contains(destination) == selection.is_only && hasher.finish().cast_signed() & bits == 0
            };
            let row = |destination: &String| Waiting {
                id: 0,
                destination: destination.clone(),
                session: None,
                message_id: String::new(),
                message: Vec::new(),
            };
            let mut rows: Vec<_> = waiting.iter().filter(is_selected).take(batch).map(row).collect();
            let leaves_rows = selection.limit(&mut rows, u32::try_from(batch).unwrap());
            pauses.selected(&selection, rows.is_empty(), leaves_rows);
            if !rows.is_empty() || selection.is_all() {
                return Ok(rows);
            }
        }
    }

    /// Counts the batches until a row of the healthy destination, the newest, is read. All others fail, each batch after a time: each
    /// of them has a turn before.
    fn batches(pauses: &mut Pauses, failing: usize, rows: usize, batch: usize, time: Duration) -> usize {
        let mut waiting: Vec<_> = (0..failing).flat_map(|number| vec![number.to_string(); rows]).collect();
        waiting.extend(vec!["healthy".to_owned(); rows]);
        let mut now = Instant::now();
        for count in 1..20_000 {
            let read = loop {
                match read(pauses, &waiting, batch, now) {
                    Ok(read) if !read.is_empty() => break read,
                    Ok(_) => now = pauses.next(now).unwrap(),
                    Err(next) => now = next,
                }
            };
            let healthy = read.iter().filter(|row| row.destination == "healthy").count();
            if healthy > 0 {
                assert_eq!(healthy, rows.min(batch), "a batch and not one row");
                return count;
            }
            now += time;
            for row in read {
                pauses.begin(&row.destination, None, now);
            }
            assert!(pauses.all.len() <= pauses.most);
        }
        panic!("it is never read")
    }

    /// Rules: X-49.
    #[tokio::test(start_paused = true)]
    async fn a_healthy_destination_has_its_turn_whatever_others_fail() {
        let new = || Pauses { most: 16, ..Pauses::new(Duration::from_millis(100), Duration::from_secs(30)) };
        let (quick, slow) = (Duration::from_millis(1), Duration::from_secs(30));
        for _ in 0..5 {
            for failing in [2, 15, 16] {
                for time in [quick, slow] {
                    assert!(batches(&mut new(), failing, 100, 100, time) <= 3 * failing + 3, "{failing} {time:?}");
                }
            }
            for failing in [17, 40] {
                batches(&mut new(), failing, 1, 100, quick);
                batches(&mut new(), failing, 100, 100, slow);
            }
            // One that has failed, and does not fail any more.
            let mut pauses = new();
            pauses.begin("healthy", None, Instant::now());
            assert!(batches(&mut pauses, 8, 100, 100, slow) <= 40);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_destination_of_which_no_message_waits_is_forgotten() {
        let mut pauses = Pauses::new(Duration::from_millis(100), Duration::from_secs(30));
        let now = Instant::now();
        pauses.begin("gone", None, now);
        let waiting = vec!["orders".to_owned(); 10];
        for _ in 0..3 {
            assert_eq!(read(&mut pauses, &waiting, 5, now + Duration::from_secs(1)).unwrap().len(), 5);
        }
        assert!(pauses.all.is_empty());
    }

    #[test]
    fn pauses_reach_the_longest_whatever_the_first() {
        let (first, longest) = (Duration::from_millis(1), Duration::from_secs(24 * 3_600));
        for failures in [27, 31, 32, 33, u32::MAX] {
            let length = length(first, longest, failures);
            assert!(length >= longest / 2 && length <= longest, "{failures}: {length:?}");
        }
        assert!(length(first, longest, 10) <= Duration::from_millis(1_024));
    }

    /// Rules: X-47.
    #[tokio::test(start_paused = true)]
    async fn another_session_that_is_sent_does_not_make_the_pauses_short_again() {
        let mut pauses = Pauses::new(Duration::from_millis(100), Duration::from_secs(30));
        let mut now = Instant::now();
        let fail = |pauses: &mut Pauses, now: &mut Instant| {
            let length = pauses.begin("orders", Some("a"), *now).unwrap();
            *now += length;
            pauses.end("orders", Some("b"), *now);
            pauses.end("orders", None, *now);
            length
        };
        let lengths: Vec<_> = (0..10).map(|_| fail(&mut pauses, &mut now)).collect();
        assert!(lengths[9] >= Duration::from_secs(15), "{lengths:?}");
        pauses.begin("orders", Some("b"), now);
        now += Duration::from_secs(30);
        pauses.end("orders", Some("a"), now);
        assert_eq!(pauses.all["orders"].failures, 11, "b fails still");
        pauses.end("orders", Some("b"), now);
        assert!(fail(&mut pauses, &mut now) <= Duration::from_millis(100));
    }

    #[tokio::test(start_paused = true)]
    async fn no_pause_is_too_long_for_an_instant() {
        let mut pauses = Pauses::new(Duration::MAX, Duration::MAX);
        let now = Instant::now();
        assert!(pauses.begin("orders", None, now).is_some() && pauses.next(now).is_some());
    }
}
