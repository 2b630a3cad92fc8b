use std::collections::{BTreeMap, HashSet};

use super::*;

const MS: Duration = Duration::from_millis(1);

fn failure() -> Failure {
    Failure { row: 1, message_id: "a".into(), attempts: 1, error: "busy".into() }
}

type Row = (String, Option<String>);

/// A relay with a table in memory, which reads as the statements do.
struct Relay {
    pauses: Pauses,
    rows: BTreeMap<i64, Row>,
    next: i64,
    batch: usize,
    now: Instant,
    sent: Vec<(i64, Row)>,
    /// The groups of each batch.
    tried: Vec<HashSet<Row>>,
}

impl Relay {
    fn new(batch: usize) -> Self {
        let pauses = Pauses::new(Duration::from_millis(100), Duration::from_secs(30));
        let (rows, sent, tried) = (BTreeMap::new(), Vec::new(), Vec::new());
        Self { pauses, rows, next: 1, batch, now: Instant::now(), sent, tried }
    }

    fn add(&mut self, destination: &str, session: Option<&str>) {
        self.rows.insert(self.next, (destination.to_owned(), session.map(str::to_owned)));
        self.next += 1;
    }

    fn find(&self, step: &Step) -> Vec<Found> {
        let mut firsts = BTreeMap::new();
        for (id, (destination, session)) in &self.rows {
            firsts.entry(name(destination, session.as_deref())).or_insert(*id);
        }
        let newest = self.rows.keys().next_back().copied().unwrap_or_default();
        let mut after = step.after.clone();
        let mut found = Vec::new();
        while found.len() < step.steps {
            let passes = step.passing.contains(&after.0);
            let next = firsts.iter().find(|(name, _)| if passes { name.0 > after.0 } else { **name > after });
            let Some((name, id)) = next else { break };
            after.clone_from(name);
            found.push(Found { name: name.clone(), id: *id, newest, rows: 0 });
        }
        found
    }

    fn read(&mut self, selection: &Selection) -> (Vec<(i64, Row)>, bool) {
        let rows = self.rows.iter().map(|(id, row)| (*id, row.clone()));
        let Selection::Lap(step) = selection else { return (rows.take(self.batch).collect(), true) };
        let (chosen, is_end) = self.pauses.choose(step, self.find(step), self.batch, self.now);
        assert!(chosen.len() <= self.batch);
        let mut read = Vec::new();
        for one in &chosen {
            let of_group = rows.clone().filter(|(_, row)| name(&row.0, row.1.as_deref()) == one.name);
            read.extend(of_group.take(one.rows));
        }
        assert!(read.len() <= self.batch);
        (read, is_end)
    }

    /// Reads and sends a batch. If nothing is read, the time goes on to the next pause.
    fn turn(&mut self, fails: impl Fn(&Row) -> bool) {
        let selection = match self.pauses.select(self.batch, self.now) {
            Ok(selection) => selection,
            Err(next) => return self.now = next,
        };
        let (read, is_end) = self.read(&selection);
        let is_empty = read.is_empty();
        let mut failed = HashSet::new();
        if !is_empty {
            self.pauses.sending();
            self.tried.push(read.iter().map(|(_, row)| row.clone()).collect());
        }
        for (id, row) in read {
            if failed.contains(&row) {
                continue;
            }
            if fails(&row) {
                self.pauses.failed(&row.0, row.1.as_deref(), false, failure(), self.now);
                failed.insert(row);
            } else {
                self.pauses.answered(&row.0, row.1.as_deref());
                self.rows.remove(&id);
                self.sent.push((id, row));
            }
        }
        self.pauses.batch_ended(self.now);
        assert!(self.pauses.destinations.len() <= self.pauses.most);
        assert!(self.pauses.sessions.len() <= self.pauses.most_sessions);
        let goes_on = !is_end || self.pauses.end_lap(self.now);
        if !goes_on {
            self.now = self.pauses.next(self.now).unwrap_or(self.now + Duration::from_secs(1));
        }
        self.now += MS;
    }

    /// Returns after how many batches a message of this destination and session is sent.
    fn batches_until(&mut self, of: (&str, Option<&str>)) -> usize {
        let of = (of.0.to_owned(), of.1.map(str::to_owned));
        let before = self.tried.len();
        for _ in 0..20_000 {
            self.turn(|row| *row != of);
            if self.sent.iter().any(|(_, row)| *row == of) {
                return self.tried.len() - before;
            }
        }
        panic!("it is never sent")
    }

    /// All messages are sent, those of each group in their order.
    fn finish(&mut self) {
        for _ in 0..20_000 {
            self.turn(|_| false);
        }
        assert!(self.rows.is_empty(), "{:?}", self.rows);
        let mut last = HashMap::new();
        for (id, row) in &self.sent {
            assert!(last.insert(row, id).is_none_or(|last| last < id), "{id} {row:?}");
        }
    }
}

/// Rules: X-47.
#[tokio::test(start_paused = true)]
async fn the_pauses_of_a_session_grow_until_it_is_sent() {
    let mut pauses = Pauses::new(Duration::from_millis(100), Duration::from_secs(1));
    let mut now = Instant::now();
    let mut fail = |pauses: &mut Pauses| {
        pauses.failed("orders", Some("a"), false, failure(), now);
        pauses.answered("orders", Some("b"));
        let delayed = pauses.batch_ended(now);
        assert_eq!((delayed.len(), pauses.next(now)), (1, Some(now + delayed[0].pause)));
        assert!(pauses.destinations.is_empty());
        now += Duration::from_secs(1);
        assert_eq!(pauses.next(now), None);
        delayed[0].pause
    };
    let lengths: Vec<_> = (0..8).map(|_| fail(&mut pauses)).collect();
    assert!(lengths[0] <= Duration::from_millis(100) && lengths[7] >= Duration::from_millis(500), "{lengths:?}");
    assert!(lengths.iter().all(|length| *length <= Duration::from_secs(1)), "{lengths:?}");
    pauses.answered("orders", Some("a"));
    assert!(pauses.is_empty());
    assert!(fail(&mut pauses) <= Duration::from_millis(100));
}

/// Rules.
#[tokio::test(start_paused = true)]
async fn a_destination_pauses_if_it_takes_nothing_of_several_sessions_that_did_not_fail_before() {
    let mut pauses = Pauses::new(Duration::from_millis(100), Duration::from_secs(30));
    let now = Instant::now();
    let mut batch = |failed: &[&str], answered: &[&str]| {
        for session in failed {
            pauses.failed("orders", Some(session), false, failure(), now);
        }
        for session in answered {
            pauses.answered("orders", Some(session));
        }
        pauses.batch_ended(now);
        pauses.destinations.get("orders").map(|pause| pause.failures)
    };
    assert_eq!(batch(&["a"], &[]), None);
    assert_eq!(batch(&["b"], &[]), None);
    assert_eq!(batch(&["a", "b"], &[]), None, "they failed before");
    assert_eq!(batch(&["c", "d"], &["e"]), None);
    assert_eq!(batch(&["f", "g"], &[]), Some(1));
    assert_eq!(batch(&["f"], &[]), Some(1));
    assert_eq!(batch(&["h"], &[]), Some(2));
    assert_eq!(batch(&["h"], &["a"]), None);
    // A failure that is that of the destination, whatever else it takes.
    for failures in 1..3 {
        pauses.failed("orders", None, true, failure(), now);
        pauses.answered("orders", Some("a"));
        pauses.batch_ended(now);
        assert_eq!(pauses.destinations["orders"].failures, failures);
    }
}

#[tokio::test(start_paused = true)]
async fn one_destination_is_forgotten_for_one_more_and_not_all() {
    let mut pauses = Pauses::new(Duration::from_secs(100), Duration::from_secs(1_000));
    let mut fail = |destination: &str, now| {
        pauses.failed(destination, None, true, failure(), now);
        pauses.batch_ended(now);
        (pauses.destinations.len(), pauses.destinations["orders"].failures, pauses.sessions.len())
    };
    let now = Instant::now();
    for failures in 0..3 {
        fail("orders", now + failures * Duration::from_secs(1_000));
    }
    let kept = (0..2 * MOST).map(|other| fail(&other.to_string(), now + Duration::from_secs(2_000))).last();
    assert_eq!(kept, Some((MOST, 3, MOST_SESSIONS)), "the pause of orders ends last");
}

/// Rules: X-47.
#[tokio::test(start_paused = true)]
async fn a_destination_that_pauses_is_not_tried_again_for_others_that_fail() {
    let mut relay = Relay::new(10);
    relay.pauses = Pauses { most: 16, most_sessions: 1, ..relay.pauses };
    relay.pauses.first = Duration::from_secs(100);
    (0..60).for_each(|number| relay.add(&number.to_string(), None));
    let began = relay.now;
    while relay.now < began + Duration::from_secs(1) {
        relay.turn(|_| true);
    }
    // One has the only pause of a session.
    let tried: Vec<_> = relay.tried.iter().flatten().collect();
    assert_eq!((tried.len(), tried.iter().collect::<HashSet<_>>().len()), (17, 17));
    relay.finish();
}

/// Rules: X-49.
#[tokio::test(start_paused = true)]
async fn a_session_is_sent_however_many_messages_of_another_one_fail() {
    let mut relay = Relay::new(100);
    (0..1_000).for_each(|_| relay.add("orders", Some("a")));
    relay.add("orders", Some("b"));
    assert_eq!(relay.batches_until(("orders", Some("b"))), 2);
    relay.add("orders", Some("c"));
    assert_eq!(relay.batches_until(("orders", Some("c"))), 1);
    relay.finish();
}

/// Rules: X-49.
#[tokio::test(start_paused = true)]
async fn a_session_is_sent_however_many_others_fail() {
    for (sessions, healthy) in [(20, "a"), (20, "z"), (300, "a"), (300, "z")] {
        let mut relay = Relay::new(10);
        relay.pauses.most_sessions = 50;
        for session in 0..sessions {
            (0..20).for_each(|_| relay.add("orders", Some(&format!("m{session}"))));
        }
        relay.add("orders", Some(healthy));
        let batches = relay.batches_until(("orders", Some(healthy)));
        assert!(batches <= 3 * sessions / 10 + 100, "{sessions} {healthy}: {batches}");
        relay.finish();
    }
}

/// Rules: X-49.
#[tokio::test(start_paused = true)]
async fn a_destination_is_sent_to_however_many_others_fail() {
    for failing in [2, 15, 16, 17, 60] {
        for (sessions, healthy) in [(1, "a"), (1, "z"), (3, "a"), (3, "z")] {
            let mut relay = Relay::new(10);
            relay.pauses = Pauses { most: 16, most_sessions: 16, ..relay.pauses };
            for number in 0..failing * sessions * 10 {
                relay.add(&format!("m{}", number % failing), Some(&(number % sessions).to_string()));
            }
            relay.add(healthy, None);
            let batches = relay.batches_until((healthy, None));
            assert!(batches <= 3 * failing * sessions + 10, "{failing} {sessions} {healthy}: {batches}");
            relay.finish();
        }
    }
}

/// Rules: X-49.
/// Names that grow, such as those of UUIDs of version 7.
#[tokio::test(start_paused = true)]
async fn groups_that_begin_during_a_lap_do_not_make_it_longer() {
    let mut relay = Relay::new(2);
    let failing = ("a".to_owned(), None);
    for destination in ["a", "b", "z"] {
        relay.add(destination, None);
    }
    for _ in 0..300 {
        let sent = relay.sent.len();
        relay.turn(|row| *row == failing);
        if relay.sent.len() > sent {
            // More than a batch.
            (0..3).for_each(|nth| relay.add("b", Some(&format!("{sent:05}{nth}"))));
        }
    }
    assert!(relay.sent.iter().any(|(_, row)| row.0 == "z"));
    relay.finish();
}

/// Rules: X-42.
#[tokio::test(start_paused = true)]
async fn the_order_of_a_group_is_kept_whatever_is_forgotten() {
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| fastrand::u64(..));
    println!("replay: SEED={seed} cargo test --package consign-outbox-postgres --lib the_order_of_a_group_is_kept");
    // The lengths of the pauses are random too.
    fastrand::seed(seed);
    for batch in [1, 7, 30] {
        let mut relay = Relay::new(batch);
        relay.pauses = Pauses { most: 3, most_sessions: 5, ..relay.pauses };
        for nth in 0..600 {
            let session = format!("{}", fastrand::u8(..4));
            let session = Some(session.as_str()).filter(|session| *session != "3");
            relay.add(&fastrand::u8(..5).to_string(), session);
            let seed = fastrand::u8(..);
            relay.turn(|row| {
                let session = row.1.as_ref().map_or(7, |session| session.as_bytes()[0] as usize);
                (row.0.len() + seed as usize + session).is_multiple_of(3)
            });
            match fastrand::u8(..20) {
                0 => relay.pauses.destinations.clear(),
                1 => relay.pauses.sessions.clear(),
                2 => relay.pauses.lap = Lap::new(nth, relay.now),
                _ => {}
            }
        }
        relay.finish();
        assert_eq!(relay.sent.len(), 600);
    }
}

/// Rules: X-47.
#[tokio::test(start_paused = true)]
async fn what_does_not_wait_any_more_is_forgotten_after_a_lap() {
    let mut relay = Relay::new(10);
    for session in ["a", "b", "c"] {
        relay.add("gone", Some(session));
    }
    relay.add("orders", None);
    relay.turn(|_| true);
    assert_eq!((relay.pauses.destinations.len(), relay.pauses.sessions.len()), (1, 4));
    relay.rows.retain(|_, row| row.0 == "orders");
    relay.now += Duration::from_secs(1);
    (0..5).for_each(|_| relay.turn(|_| true));
    assert_eq!((relay.pauses.destinations.len(), relay.pauses.sessions.len()), (0, 1));
    relay.rows.clear();
    (0..2).for_each(|_| relay.turn(|_| true));
    assert!(relay.pauses.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_lap_goes_on_with_the_groups_whose_rows_did_not_fit_into_a_batch() {
    let mut relay = Relay::new(10);
    relay.add("a", Some("fails"));
    relay.turn(|_| true);
    for destination in ["b", "c", "d"] {
        relay.add(destination, None);
    }
    let Ok(Selection::Lap(step)) = relay.pauses.select(10, relay.now) else { panic!("no lap") };
    let (chosen, is_end) = relay.pauses.choose(&step, relay.find(&step), 10, relay.now);
    assert_eq!((chosen.len(), is_end), (3, true));
    let read = |names: &[&str]| names.iter().map(|destination| name(destination, None)).collect::<HashSet<_>>();
    assert!(!relay.pauses.chosen_were_read(&chosen, &read(&["b", "c", "d"])));
    assert!(!relay.pauses.chosen_were_read(&chosen, &read(&[])));
    assert!(relay.pauses.chosen_were_read(&chosen, &read(&["b"])));
    assert_eq!(relay.pauses.lap.after, name("b", None));
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

#[tokio::test(start_paused = true)]
async fn no_pause_is_too_long_for_an_instant() {
    let mut pauses = Pauses::new(Duration::MAX, Duration::MAX);
    let now = Instant::now();
    pauses.failed("orders", None, true, failure(), now);
    assert!(pauses.batch_ended(now).len() == 1 && pauses.next(now).is_some());
}

#[tokio::test(start_paused = true)]
async fn the_message_that_failed_most_often_is_named() {
    let mut pauses = Pauses::new(MS, MS);
    for attempts in [3, 7, 5] {
        let failure = Failure { attempts, ..failure() };
        pauses.failed("orders", Some(&attempts.to_string()), false, failure, Instant::now());
    }
    let delayed = pauses.batch_ended(Instant::now());
    assert_eq!(
        delayed.iter().map(|one| (one.failure.attempts, one.session.as_deref())).collect::<Vec<_>>(),
        [(7, Some("7"))]
    );
}
