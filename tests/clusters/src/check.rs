//! What a history must not have: a pure function over it.

mod messages;
mod sessions;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt,
};

use serde::{Deserialize, Serialize};

use crate::history::{Event, Queue, What};

/// What a transport documents, and so is no violation.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a sentence of a README")]
pub(crate) struct Allowed {
    /// The server may acknowledge a message and not store it. It is told from a message that is stored and does not come by the
    /// sequence numbers, which have no gaps.
    pub(crate) unstored_sends: bool,
    /// The server may store a message twice although it detects duplicates, if it was completed before the server was restarted.
    pub(crate) undetected_duplicates: bool,
    /// The servers may refuse a session until they are restarted.
    pub(crate) stuck_sessions: bool,
    /// A message whose completion was confirmed may be delivered again.
    pub(crate) redelivery_after_completion: bool,
    /// A completion has no answer of the broker: it does not show who holds a session.
    pub(crate) unanswered_completions: bool,
}

/// A kind of violation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// An acknowledged message was never delivered.
    Lost,
    /// A message was delivered that was not sent.
    Unexpected,
    /// There are more stored copies of a message than its sends explain.
    Duplicated,
    /// A message came again after its completion was confirmed.
    Redelivered,
    /// A message of a session came before an earlier one.
    Order,
    /// Two holders had a session at once.
    TwoHolders,
    /// A message has two effects.
    DoubleEffect,
    /// A message that was delivered has no effect.
    NoEffect,
    /// An effect of a message that was not sent.
    UnexpectedEffect,
    /// A call ended neither with a reply nor with an error.
    NoAnswer,
    /// A reply was that of another call.
    WrongAnswer,
    /// A consumer, a responder or a requester ended.
    Stopped,
    /// A call did not end long after its deadline, or work did not go on after a fault.
    Hung,
}

/// A violation, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) kind: Kind,
    pub(crate) what: String,
}

impl Violation {
    pub(crate) fn new(kind: Kind, what: impl Into<String>) -> Self {
        Self { kind, what: what.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.kind, self.what)
    }
}

/// How often something happened, by its name.
pub(crate) type Counts = BTreeMap<String, u64>;

/// All that is known of a round.
pub(crate) struct History<'h> {
    /// In the order of time.
    pub(crate) events: &'h [Event],
    /// The clients that were killed: their calls have no end.
    pub(crate) killed: &'h HashSet<u32>,
    /// The rows of each message in the table of effects.
    pub(crate) effects: &'h HashMap<String, u64>,
}

/// Returns the violations of a history, and counts of what happened.
pub(crate) fn check(history: &History<'_>, allowed: Allowed) -> (Vec<Violation>, Counts) {
    let mut violations = Vec::new();
    let mut counts = Counts::new();
    for queue in [Queue::Work, Queue::Detected, Queue::Sessions] {
        messages::check(history, queue, allowed, &mut violations, &mut counts);
    }
    effects(history, &mut violations);
    sessions::check(history, allowed, &mut violations, &mut counts);
    calls(history, &mut violations, &mut counts);
    for event in history.events {
        match &event.what {
            What::Stopped { part, error } => {
                violations.push(Violation::new(Kind::Stopped, format!("{part} of client {}: {error}", event.client)));
            }
            What::Hung { part } => {
                violations.push(Violation::new(Kind::Hung, format!("{part} of client {}", event.client)));
            }
            _ => {}
        }
    }
    (violations, counts)
}

/// Each message of the queue with effects has one, if it was delivered.
fn effects(history: &History<'_>, violations: &mut Vec<Violation>) {
    let (mut sending, mut delivered) = (HashSet::new(), HashSet::new());
    for event in history.events {
        match &event.what {
            What::Sending { queue: Queue::Work, id } => drop(sending.insert(id)),
            What::Delivered { queue: Queue::Work, id, .. } => drop(delivered.insert(id)),
            _ => {}
        }
    }
    for (id, rows) in history.effects {
        if *rows > 1 {
            violations.push(Violation::new(Kind::DoubleEffect, format!("{id}: {rows} rows")));
        }
        if !sending.contains(id) {
            violations.push(Violation::new(Kind::UnexpectedEffect, id));
        }
    }
    let without = delivered.into_iter().filter(|id| !history.effects.contains_key(*id));
    violations.extend(without.map(|id| Violation::new(Kind::NoEffect, id)));
}

fn calls(history: &History<'_>, violations: &mut Vec<Violation>, counts: &mut Counts) {
    let mut open = HashMap::new();
    for event in history.events {
        match &event.what {
            What::Calling { call } => {
                *counts.entry("calls".into()).or_default() += 1;
                open.insert(call, event.client);
            }
            What::Answered { call, is_right } => {
                open.remove(call);
                if !is_right {
                    violations.push(Violation::new(Kind::WrongAnswer, call));
                }
            }
            What::Unanswered { call, .. } => {
                *counts.entry("calls failed".into()).or_default() += 1;
                open.remove(call);
            }
            _ => {}
        }
    }
    let ended = open.into_iter().filter(|(_, client)| !history.killed.contains(client));
    violations.extend(ended.map(|(call, _)| Violation::new(Kind::NoAnswer, call)));
}
