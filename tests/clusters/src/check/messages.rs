//! The messages of one queue: none is lost, invented or duplicated.

use std::collections::{HashMap, HashSet};

use super::{Allowed, Counts, History, Kind, Violation};
use crate::history::{Queue, What};

#[derive(Default)]
struct Message {
    attempts: usize,
    is_acknowledged: bool,
    deliveries: u64,
    /// The stored copies that were delivered.
    copies: HashSet<Option<u64>>,
    /// The copy of the last delivery, and those whose completion was confirmed.
    last: Option<u64>,
    completed: HashSet<Option<u64>>,
    is_redelivered: bool,
}

pub(super) fn check(
    history: &History<'_>,
    queue: Queue,
    allowed: Allowed,
    violations: &mut Vec<Violation>,
    counts: &mut Counts,
) {
    let mut messages: HashMap<&str, Message> = HashMap::new();
    let mut unknown = 0;
    for event in history.events {
        match &event.what {
            What::Sending { queue: to, id } if *to == queue => messages.entry(id).or_default().attempts += 1,
            What::Sent { queue: to, id } if *to == queue => messages.entry(id).or_default().is_acknowledged = true,
            What::Unsent { queue: to, is_unknown, .. } if *to == queue => unknown += u64::from(*is_unknown),
            What::Delivered { queue: from, id, sequence, .. } if *from == queue => {
                let message = messages.entry(id).or_default();
                message.deliveries += 1;
                message.is_redelivered |= message.completed.contains(sequence);
                message.copies.insert(*sequence);
                message.last = *sequence;
            }
            What::Completed { queue: from, id, .. } if *from == queue => {
                let message = messages.entry(id).or_default();
                message.completed.insert(message.last);
            }
            _ => {}
        }
    }
    let undelivered = undelivered(&messages);
    let mut lost = Vec::new();
    let mut count = |name: &str, by: u64| *counts.entry(name.into()).or_default() += by;
    count("sends of unknown outcome", unknown);
    for (id, message) in messages {
        let id = || format!("{queue:?} {id}");
        count("acknowledged", u64::from(message.is_acknowledged));
        count("delivered", message.deliveries);
        if message.is_acknowledged && message.deliveries == 0 {
            lost.push(Violation::new(Kind::Lost, id()));
        }
        if message.attempts == 0 {
            violations.push(Violation::new(Kind::Unexpected, id()));
        }
        let mut explained = message.attempts;
        if queue == Queue::Detected {
            count("stored twice", u64::from(message.copies.len() > 1));
            if !allowed.undetected_duplicates {
                explained = 1;
            }
        }
        if message.copies.len() > explained {
            let copies = message.copies.len();
            violations.push(Violation::new(Kind::Duplicated, format!("{}: {copies} copies, {explained} sends", id())));
        }
        if message.is_redelivered {
            count("redelivered after completion", 1);
            if !allowed.redelivery_after_completion {
                violations.push(Violation::new(Kind::Redelivered, id()));
            }
        }
    }
    let unstored = lost.len().saturating_sub(undelivered);
    count("acknowledged and not stored", unstored as u64);
    violations.extend(lost.into_iter().skip(if allowed.unstored_sends { unstored } else { 0 }));
}

/// The numbers of stored messages that did not come.
fn undelivered(messages: &HashMap<&str, Message>) -> usize {
    let numbers: HashSet<u64> =
        messages.values().flat_map(|message| message.copies.iter().copied().flatten()).collect();
    let stored = numbers.iter().max().map_or(0, |highest| usize::try_from(*highest).unwrap_or(usize::MAX));
    stored.checked_sub(numbers.len()).expect("sequence numbers that begin at 1")
}
