//! What a child tells its parent: one line before each operation, and one when it is answered.

use std::{fmt, io::Write, str::FromStr};

/// Where a message can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// A queue.
    Work,
    /// A queue that messages are sent to in the transaction that completes others.
    Done,
    /// A queue that detects duplicates.
    Once,
    /// Two subscriptions of one topic.
    One,
    Two,
}

impl Place {
    pub(super) const ALL: [Self; 5] = [Self::Work, Self::Done, Self::Once, Self::One, Self::Two];
    pub(super) const TOPIC: &str = "events";

    pub(super) fn path(self) -> &'static str {
        match self {
            Self::Work => "work",
            Self::Done => "done",
            Self::Once => "once",
            Self::One => "events/subscriptions/one",
            Self::Two => "events/subscriptions/two",
        }
    }
}

/// What one message is at one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum State {
    Absent,
    Ready,
    Deferred,
    Scheduled,
    Dead,
}

/// An operation. Each either happens as a whole or does not happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Send(Place, Vec<u64>),
    /// To the topic, which has two subscriptions.
    Publish(u64),
    /// Of an id that was sent before, to the queue that detects duplicates.
    Repeat(u64),
    Schedule(Vec<u64>),
    Cancel(Vec<u64>),
    Settle(State, Place, u64),
    /// A completion and a send in one transaction.
    Replace(u64, u64),
}

/// A message at a place.
pub(super) type Copy = (Place, u64);

impl Act {
    /// What becomes of which message.
    pub(super) fn effects(&self) -> Vec<(Copy, State)> {
        let all = |place, ids: &[u64], state| ids.iter().map(|&id| ((place, id), state)).collect();
        match self {
            Self::Send(place, ids) => all(*place, ids, State::Ready),
            Self::Publish(id) => vec![((Place::One, *id), State::Ready), ((Place::Two, *id), State::Ready)],
            Self::Repeat(_) => Vec::new(),
            Self::Schedule(ids) => all(Place::Work, ids, State::Scheduled),
            Self::Cancel(ids) => all(Place::Work, ids, State::Absent),
            Self::Settle(state, place, id) => vec![((*place, *id), *state)],
            Self::Replace(old, new) => vec![((Place::Work, *old), State::Absent), ((Place::Done, *new), State::Ready)],
        }
    }
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// The store is about to be opened.
    Opening,
    Opened,
    /// The operation of this number is about to be called.
    Tries(u64, Act),
    Acknowledged(u64),
    Refused(u64, String),
    Received(Place, u64),
    /// Everything that was tried has happened, and the store is closed.
    Closed,
}

/// What a line of a child begins with, for its test harness writes lines too.
const MARK: &str = "told ";

impl Told {
    /// One line, in one write. A child whose parent is gone ends.
    pub(super) fn say(&self) {
        let line = format!("{MARK}{self}\n");
        let mut out = std::io::stdout().lock();
        if out.write_all(line.as_bytes()).and_then(|()| out.flush()).is_err() {
            std::process::exit(1);
        }
    }

    /// `None` if it is no line of ours, or half of one.
    pub(super) fn read(line: &str) -> Option<Self> {
        line.split_once(MARK)?.1.parse().ok()
    }
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Opening => f.write_str("opening"),
            Self::Opened => f.write_str("opened"),
            Self::Tries(number, act) => {
                write!(f, "tries {number} ")?;
                let (word, ids) = match act {
                    Act::Send(place, ids) => (format!("send {place:?}"), ids.clone()),
                    Act::Publish(id) => ("publish".into(), vec![*id]),
                    Act::Repeat(id) => ("repeat".into(), vec![*id]),
                    Act::Schedule(ids) => ("schedule".into(), ids.clone()),
                    Act::Cancel(ids) => ("cancel".into(), ids.clone()),
                    Act::Settle(state, place, id) => (format!("settle {state:?} {place:?}"), vec![*id]),
                    Act::Replace(old, new) => ("replace".into(), vec![*old, *new]),
                };
                f.write_str(&word)?;
                ids.iter().try_for_each(|id| write!(f, " {id}"))
            }
            Self::Acknowledged(number) => write!(f, "acknowledged {number}"),
            Self::Refused(number, why) => write!(f, "refused {number} {why}"),
            Self::Received(place, id) => write!(f, "received {place:?} {id}"),
            Self::Closed => f.write_str("closed"),
        }
    }
}

impl FromStr for Told {
    type Err = ();

    fn from_str(line: &str) -> Result<Self, ()> {
        let mut words = line.split(' ');
        let mut next = || words.next().ok_or(());
        let told = match next()? {
            "opening" => Self::Opening,
            "opened" => Self::Opened,
            "closed" => Self::Closed,
            "acknowledged" => Self::Acknowledged(number(next()?)?),
            "received" => Self::Received(named(&Place::ALL, next()?)?, number(next()?)?),
            "refused" => Self::Refused(number(next()?)?, words.collect::<Vec<_>>().join(" ")),
            "tries" => {
                let at = number(next()?)?;
                let verb = next()?;
                let mut places = || named(&Place::ALL, next()?);
                let act = match verb {
                    "send" => Act::Send(places()?, numbers(words)?),
                    "schedule" => Act::Schedule(numbers(words)?),
                    "cancel" => Act::Cancel(numbers(words)?),
                    "publish" => Act::Publish(number(next()?)?),
                    "repeat" => Act::Repeat(number(next()?)?),
                    "replace" => Act::Replace(number(next()?)?, number(next()?)?),
                    "settle" => {
                        let all = [State::Absent, State::Ready, State::Deferred, State::Scheduled, State::Dead];
                        Act::Settle(named(&all, next()?)?, named(&Place::ALL, next()?)?, number(next()?)?)
                    }
                    _ => return Err(()),
                };
                Self::Tries(at, act)
            }
            _ => return Err(()),
        };
        Ok(told)
    }
}

fn number(word: &str) -> Result<u64, ()> {
    word.parse().map_err(drop)
}

fn numbers<'w>(words: impl Iterator<Item = &'w str>) -> Result<Vec<u64>, ()> {
    words.map(number).collect()
}

fn named<T: fmt::Debug + std::marker::Copy>(all: &[T], word: &str) -> Result<T, ()> {
    all.iter().find(|it| format!("{it:?}") == word).copied().ok_or(())
}

#[test]
fn a_line_is_read_as_it_was_said() {
    let acts = [
        Act::Send(Place::Work, vec![1, 2]),
        Act::Publish(3),
        Act::Repeat(4),
        Act::Schedule(vec![5]),
        Act::Cancel(vec![5, 6]),
        Act::Settle(State::Dead, Place::One, 7),
        Act::Replace(8, 9),
    ];
    let tries = acts.into_iter().map(|act| Told::Tries(10, act));
    let others = [Told::Opening, Told::Opened, Told::Acknowledged(1), Told::Received(Place::Two, 2), Told::Closed];
    for told in tries.chain(others).chain([Told::Refused(3, "it is full".into())]) {
        assert_eq!(Told::read(&format!("harness {MARK}{told}")), Some(told));
    }
    assert_eq!(Told::read("test kill ... ok"), None);
}
