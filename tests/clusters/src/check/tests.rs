//! Each violation, planted into a history that has none.

use super::*;

const STRICT: Allowed = Allowed {
    unstored_sends: false,
    undetected_duplicates: false,
    stuck_sessions: false,
    redelivery_after_completion: false,
    unanswered_completions: false,
};

/// What a transport may document, but for the completions.
const ALLOWING: Allowed = Allowed {
    unstored_sends: true,
    undetected_duplicates: true,
    stuck_sessions: true,
    redelivery_after_completion: true,
    unanswered_completions: false,
};

/// A history without violations: two messages for each queue, a session with two holders one after the other, and a call.
fn clean() -> Vec<What> {
    let mut history = Vec::new();
    for queue in [Queue::Work, Queue::Detected] {
        for (number, id) in [(1, "1-1"), (2, "1-2")] {
            history.extend([
                What::Sending { queue, id: id.into() },
                What::Sent { queue, id: id.into() },
                delivered(queue, id, number, None),
                What::Completing { queue, id: id.into(), hold: None },
                What::Completed { queue, id: id.into(), hold: None },
            ]);
        }
    }
    for (number, id, hold) in [(1, "1-0-1", 7), (2, "1-0-2", 8)] {
        let queue = Queue::Sessions;
        history.extend([
            What::Sending { queue, id: id.into() },
            What::Sent { queue, id: id.into() },
            What::Accepted { session: "1-0".into(), hold },
            delivered(queue, id, number, Some(hold)),
            What::Completing { queue, id: id.into(), hold: Some(hold) },
            What::Completed { queue, id: id.into(), hold: Some(hold) },
            What::Released { session: "1-0".into(), hold },
        ]);
    }
    history.push(What::Calling { call: "9".into() });
    history.push(What::Answered { call: "9".into(), is_right: true });
    history
}

fn delivered(queue: Queue, id: &str, sequence: u64, hold: Option<u64>) -> What {
    What::Delivered { queue, id: id.into(), sequence: Some(sequence), hold }
}

/// The kinds of violations of a history with these effects, each event 100 ms after the one before.
fn kinds_with(history: Vec<What>, effects: &[(&str, u64)], killed: &[u32], allowed: Allowed) -> Vec<Kind> {
    let events: Vec<_> = (0..).zip(history).map(|(number, what)| Event { at: 100 * number, client: 1, what }).collect();
    let effects = effects.iter().map(|&(id, rows)| (id.to_owned(), rows)).collect();
    let killed = killed.iter().copied().collect();
    let (violations, _) = check(&History { events: &events, killed: &killed, effects: &effects }, allowed);
    let mut kinds: Vec<_> = violations.iter().map(|violation| violation.kind).collect();
    kinds.sort_unstable();
    kinds
}

const EFFECTS: [(&str, u64); 2] = [("1-1", 1), ("1-2", 1)];

fn kinds(history: Vec<What>) -> Vec<Kind> {
    kinds_with(history, &EFFECTS, &[], STRICT)
}

/// The clean history without the events that `remove` selects.
fn without(remove: impl Fn(&What) -> bool) -> Vec<What> {
    clean().into_iter().filter(|what| !remove(what)).collect()
}

/// The clean history with further events at its end.
fn with(events: impl IntoIterator<Item = What>) -> Vec<What> {
    clean().into_iter().chain(events).collect()
}

#[test]
fn a_clean_history_has_no_violation() {
    assert_eq!(kinds(clean()), []);
}

#[test]
fn an_acknowledged_message_that_never_came_is_lost() {
    let lost = |what: &What| matches!(what, What::Delivered { queue: Queue::Detected, id, .. } if id == "1-2");
    assert_eq!(kinds(without(lost)), [Kind::Lost]);
    // One whose send failed may be lost.
    let unsent = |what: &What| lost(what) || matches!(what, What::Sent { queue: Queue::Detected, id } if id == "1-2");
    assert_eq!(kinds(without(unsent)), []);
}

/// A message that has a sequence number is stored; the next one has the next number.
#[test]
fn an_acknowledged_message_that_was_not_stored_is_told_from_one_that_does_not_come() {
    let lost = |what: &What| matches!(what, What::Delivered { queue: Queue::Detected, id, .. } if id == "1-2");
    let next = |number| {
        let queue = Queue::Detected;
        [What::Sending { queue, id: "1-3".into() }, delivered(queue, "1-3", number, None)]
    };
    let history = |number| without(lost).into_iter().chain(next(number)).collect();
    assert_eq!(kinds_with(history(2), &EFFECTS, &[], ALLOWING), []);
    assert_eq!(kinds_with(history(3), &EFFECTS, &[], ALLOWING), [Kind::Lost]);
    assert_eq!(kinds(history(2)), [Kind::Lost]);
}

#[test]
fn a_message_that_nobody_sent_is_unexpected() {
    let sending = |what: &What| matches!(what, What::Sending { queue: Queue::Detected, id } if id == "1-2");
    assert_eq!(kinds(without(sending)), [Kind::Unexpected]);
}

#[test]
fn more_copies_than_sends_are_duplicates() {
    assert_eq!(kinds(with([delivered(Queue::Work, "1-1", 3, None)])), [Kind::Duplicated]);
    let again = || What::Sending { queue: Queue::Work, id: "1-1".into() };
    assert_eq!(kinds(with([again(), delivered(Queue::Work, "1-1", 3, None)])), [], "it was sent twice");
    // Where the broker detects duplicates, a second send explains no copy.
    let again = What::Sending { queue: Queue::Detected, id: "1-1".into() };
    let twice = || with([again.clone(), delivered(Queue::Detected, "1-1", 3, None)]);
    assert_eq!(kinds(twice()), [Kind::Duplicated]);
    assert_eq!(kinds_with(twice(), &EFFECTS, &[], ALLOWING), [], "its transport documents it");
}

#[test]
fn a_redelivery_after_a_confirmed_completion_is_one_unless_it_is_documented() {
    let history = || with([delivered(Queue::Detected, "1-1", 1, None)]);
    assert_eq!(kinds(history()), [Kind::Redelivered]);
    let allowed = Allowed { redelivery_after_completion: true, ..STRICT };
    assert_eq!(kinds_with(history(), &EFFECTS, &[], allowed), []);
    // Without a confirmation it is a redelivery as any.
    let unconfirmed = |what: &What| matches!(what, What::Completed { queue: Queue::Detected, .. });
    let history = without(unconfirmed).into_iter().chain([delivered(Queue::Detected, "1-1", 1, None)]);
    assert_eq!(kinds(history.collect()), []);
}

#[test]
fn a_message_of_a_session_that_overtakes_is_out_of_order() {
    let first = |what: &What| matches!(what, What::Delivered { queue: Queue::Sessions, id, .. } if id == "1-0-1");
    let late = without(first).into_iter().chain([delivered(Queue::Sessions, "1-0-1", 1, None)]);
    assert_eq!(kinds(late.collect()), [Kind::Order]);
}

#[test]
fn two_holders_of_a_session_are_found() {
    let queue = Queue::Sessions;
    let id = || "1-0-1".to_owned();
    let late =
        [What::Completing { queue, id: id(), hold: Some(7) }, What::Completed { queue, id: id(), hold: Some(7) }];
    assert_eq!(kinds(with(late.clone())), [Kind::TwoHolders]);
    // A completion that began before the other had the lock may end later, and one that fails is no act.
    assert_eq!(kinds(with([late[0].clone()])), []);
    // Without answers to completions, deliveries by turns show it.
    let unanswered = Allowed { unanswered_completions: true, ..ALLOWING };
    assert_eq!(kinds_with(with(late), &EFFECTS, &[], unanswered), []);
    let by_turns = with([delivered(queue, "1-0-1", 1, Some(7))]);
    assert_eq!(kinds_with(by_turns, &EFFECTS, &[], unanswered), [Kind::TwoHolders]);
}

#[test]
fn effects_are_counted() {
    assert_eq!(kinds_with(clean(), &[("1-1", 2), ("1-2", 1)], &[], STRICT), [Kind::DoubleEffect]);
    assert_eq!(kinds_with(clean(), &[("1-1", 1)], &[], STRICT), [Kind::NoEffect]);
    let unexpected = [("1-1", 1), ("1-2", 1), ("1-3", 1)];
    assert_eq!(kinds_with(clean(), &unexpected, &[], STRICT), [Kind::UnexpectedEffect]);
}

#[test]
fn a_call_has_to_end_with_its_own_reply() {
    let answered = |what: &What| matches!(what, What::Answered { .. });
    assert_eq!(kinds(without(answered)), [Kind::NoAnswer]);
    assert_eq!(kinds_with(without(answered), &EFFECTS, &[1], STRICT), [], "its client was killed");
    let failed = What::Unanswered { call: "9".into(), error: "timed out".into() };
    assert_eq!(kinds(without(answered).into_iter().chain([failed]).collect()), []);
    let wrong = What::Answered { call: "9".into(), is_right: false };
    assert_eq!(kinds(without(answered).into_iter().chain([wrong]).collect()), [Kind::WrongAnswer]);
}

#[test]
fn a_part_that_ends_and_a_call_that_hangs_are_found() {
    let stopped = What::Stopped { part: "consumer".into(), error: String::new() };
    let hung = What::Hung { part: "send".into() };
    assert_eq!(kinds(with([stopped, hung])), [Kind::Stopped, Kind::Hung]);
}
