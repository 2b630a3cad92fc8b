//! Sessions: first deliveries in order, and one holder at a time.

use std::collections::{HashMap, HashSet};

use super::{Allowed, Counts, History, Kind, Violation};
use crate::history::{Queue, What};

/// What the clocks of two processes may differ by, in ms.
const SLACK: u64 = 20;

pub(super) fn check(history: &History<'_>, allowed: Allowed, violations: &mut Vec<Violation>, counts: &mut Counts) {
    order(history, violations);
    holders(history, allowed, violations, counts);
}

/// A message of a session is sent when the one before is acknowledged, so the numbers of first deliveries ascend. One that never
/// comes is lost, and not out of order.
fn order(history: &History<'_>, violations: &mut Vec<Violation>) {
    let mut highest: HashMap<&str, u64> = HashMap::new();
    let mut seen = HashSet::new();
    for event in history.events {
        if let What::Delivered { queue: Queue::Sessions, id, .. } = &event.what
            && let Some((session, number)) = id.rsplit_once('-')
            && let Ok(number) = number.parse::<u64>()
        {
            let highest = highest.entry(session).or_default();
            if number < *highest && seen.insert(id) {
                violations.push(Violation::new(Kind::Order, format!("{id} came after {session}-{highest}")));
            }
            seen.insert(id);
            *highest = number.max(*highest);
        }
    }
}

/// A holder acts by a completion that is confirmed. It must not begin after another holder has the lock; where a completion
/// shows nothing, no delivery may come to it after one that has come to the other.
fn holders(history: &History<'_>, allowed: Allowed, violations: &mut Vec<Violation>, counts: &mut Counts) {
    // The last lock of each session, and since when it counts.
    let mut last: HashMap<&str, (u64, u64)> = HashMap::new();
    let mut sessions: HashMap<u64, &str> = HashMap::new();
    let mut begun: HashMap<u64, u64> = HashMap::new();
    let mut found: HashMap<(&str, u64), u64> = HashMap::new();
    for event in history.events {
        match &event.what {
            What::Accepted { session, hold } => {
                *counts.entry("sessions held".into()).or_default() += 1;
                sessions.insert(*hold, session);
                if !allowed.unanswered_completions {
                    last.insert(session, (*hold, event.at));
                }
            }
            What::Delivered { hold: Some(hold), .. } if allowed.unanswered_completions => {
                let Some(session) = sessions.get(hold).copied() else { continue };
                match last.get(session) {
                    Some(&(other, since)) if other != *hold && begun.contains_key(hold) && event.at > since + SLACK => {
                        *found.entry((session, *hold)).or_default() += 1;
                    }
                    Some((other, _)) if other == hold => {}
                    _ => drop(last.insert(session, (*hold, event.at))),
                }
                begun.insert(*hold, event.at);
            }
            What::Completing { hold: Some(hold), .. } => drop(begun.insert(*hold, event.at)),
            What::Completed { hold: Some(hold), .. } if !allowed.unanswered_completions => {
                if let Some(session) = sessions.get(hold).copied()
                    && let Some(&(other, since)) = last.get(session)
                    && let Some(began) = begun.get(hold)
                    && other != *hold
                    && *began > since + SLACK
                {
                    *found.entry((session, *hold)).or_default() += 1;
                }
            }
            _ => {}
        }
    }
    for ((session, hold), times) in found {
        let what = format!("{session}: the holder {hold} acted {times} time(s) when another one had it");
        violations.push(Violation::new(Kind::TwoHolders, what));
    }
}
