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
        let found = rows.len();
        let leaves_rows = selection.limit(&mut rows, found, batch);
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

/// Rules: X-49.
/// A read of the others, or of one, passes all rows of a destination that has many, and takes too long.
#[tokio::test(start_paused = true)]
async fn after_a_read_that_fails_the_oldest_rows_are_read() {
    let waiting = vec!["many".to_owned(); 300];
    for failing in [Turn::Others, Turn::First] {
        let mut pauses = Pauses::new(Duration::from_millis(100), Duration::from_secs(30));
        let mut now = Instant::now();
        pauses.begin("many", None, now);
        pauses.turn = failing;
        let mut turns = Vec::new();
        for _ in 0..4 {
            now += Duration::from_secs(30);
            let selection = pauses.select(now).unwrap();
            turns.push(selection.turn);
            if selection.turn == failing {
                pauses.read_failed();
            } else {
                assert_eq!(read(&mut pauses, &waiting, 100, now).unwrap().len(), 100);
                pauses.begin("many", None, now);
                pauses.turn = failing;
            }
        }
        assert_eq!(turns, [failing, Turn::All, failing, Turn::All]);
    }
}
