//! A second broker, written to be obviously right: two flat maps in the order of acceptance and of creation, scanned from
//! end to end for every question. It has no index, keeps nothing that could be counted, and shares no code with the
//! library; from there it takes values only. Times are milliseconds.
//!
//! What the rows leave open it settles by the simplest rule:
//!
//! * What is due at one instant happens entity by entity, the oldest first; in one entity first the locks that end, then
//!   sessions, expiries, scheduled messages, dead letters that are tried again, and last the deletion of an idle entity.
//!   Locks of messages end in the order in which they were taken, or renewed last, sessions in that in which they were
//!   accepted; the others in the order in which their messages were.
//! * What a command makes leave for another entity leaves when the command has done all else, in that order.

mod admin;
mod due;
mod entity;
mod forward;
mod receive;
#[cfg(feature = "durable")]
mod reopen;
mod send;
mod session;
mod settle;
mod stored;
mod topic;
mod transaction;

use std::collections::{BTreeMap, VecDeque};

use consign::transport::ErrorKind;

pub(crate) use self::{
    entity::{Entity, Part, Role, Settings},
    receive::{Ages, Source, Taken},
    session::{Holder, Session},
    settle::Settle,
    stored::{Content, Place, Stored},
    topic::Rule,
    transaction::{Operation, Transaction},
};

/// Why nothing was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) kind: ErrorKind,
    /// Where the broker writes it into a dead letter.
    detail: String,
}

impl From<ErrorKind> for Refused {
    fn from(kind: ErrorKind) -> Self {
        Self { kind, detail: String::new() }
    }
}

#[derive(Debug)]
pub(crate) struct Model {
    /// By the monotonic clock.
    pub(crate) now: u64,
    pub(crate) utc: i64,
    /// The last instant at which nothing was left that is due.
    caught_up: u64,
    /// In the order of creation.
    pub(crate) entities: BTreeMap<u32, Entity>,
    /// Of all entities, in the order of acceptance.
    pub(crate) messages: BTreeMap<u64, Stored>,
    /// Those that have a state or a holder.
    pub(crate) sessions: Vec<Session>,
    /// Messages that leave for another entity when the command is over.
    leaving: VecDeque<u64>,
    last_entity: u32,
    last_message: u64,
    last_lock: u64,
    /// Messages that were stored, and those of them that are gone.
    pub(crate) stored: usize,
    pub(crate) gone: usize,
}

/// How many messages one part of an entity holds, by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) active: usize,
    pub(crate) locked: usize,
    pub(crate) deferred: usize,
    pub(crate) scheduled: usize,
    pub(crate) dead_lettered: usize,
    pub(crate) transfer_dead_lettered: usize,
    /// Of the whole entity; on a sub-queue 0.
    pub(crate) size: u64,
}

/// Where the monotonic clock begins: after a restart there are instants before it.
const BEGIN: u64 = 1 << 40;

impl Model {
    pub(crate) fn new(utc: i64) -> Self {
        Self {
            now: BEGIN,
            utc,
            caught_up: BEGIN,
            entities: BTreeMap::new(),
            messages: BTreeMap::new(),
            sessions: Vec::new(),
            leaving: VecDeque::new(),
            last_entity: 0,
            last_message: 0,
            last_lock: 0,
            stored: 0,
            gone: 0,
        }
    }

    pub(crate) fn advance(&mut self, by: u64) {
        self.now += by;
        self.utc += i64::try_from(by).unwrap();
    }

    /// What UTC is going to be at an instant.
    fn utc_at(&self, instant: u64) -> i64 {
        self.utc + i64::try_from(instant - self.now).unwrap()
    }

    pub(crate) fn entity(&self, id: u32) -> &Entity {
        &self.entities[&id]
    }

    fn entity_mut(&mut self, id: u32) -> &mut Entity {
        self.entities.get_mut(&id).unwrap()
    }

    pub(crate) fn find(&self, path: &str) -> Option<u32> {
        self.entities.iter().find(|(_, entity)| entity.path == path).map(|(&id, _)| id)
    }

    /// Someone uses the entity.
    fn touch(&mut self, id: u32) {
        let now = self.now;
        let accessed = &mut self.entity_mut(id).accessed;
        *accessed = now.max(*accessed);
    }

    fn next_lock(&mut self) -> u64 {
        self.last_lock += 1;
        self.last_lock
    }

    /// Puts a message among the others and answers with its key.
    fn store(&mut self, stored: Stored) -> u64 {
        self.last_message += 1;
        self.stored += 1;
        self.messages.insert(self.last_message, stored);
        self.last_message
    }

    fn remove(&mut self, key: u64) -> Stored {
        self.gone += 1;
        self.messages.remove(&key).unwrap()
    }

    fn message(&mut self, key: u64) -> &mut Stored {
        self.messages.get_mut(&key).unwrap()
    }

    /// Keys of messages, in the order of acceptance.
    fn keys(&self, wanted: impl Fn(&Stored) -> bool) -> Vec<u64> {
        self.messages.iter().filter(|(_, stored)| wanted(stored)).map(|(&key, _)| key).collect()
    }

    /// The counts of each part of each entity.
    pub(crate) fn counts(&mut self) -> BTreeMap<(u32, Part), Counts> {
        self.catch_up();
        let mut counts = BTreeMap::<_, Counts>::new();
        for stored in self.messages.values() {
            let of = counts.entry((stored.entity, stored.part)).or_default();
            match stored.place {
                Place::Ready => of.active += 1,
                Place::Locked | Place::DeferredLocked => of.locked += 1,
                Place::Deferred => of.deferred += 1,
                Place::Scheduled => of.scheduled += 1,
            }
            let main = counts.entry((stored.entity, Part::Main)).or_default();
            match stored.part {
                Part::Main => {}
                Part::Dead => main.dead_lettered += 1,
                Part::Transfer => main.transfer_dead_lettered += 1,
            }
            main.size += stored.size;
        }
        for session in &self.sessions {
            counts.entry((session.entity, Part::Main)).or_default().size += session.bytes();
        }
        for (&id, entity) in &self.entities {
            if let Role::Subscription { topic } = entity.role {
                let size = counts.get(&(id, Part::Main)).map_or(0, |counts| counts.size);
                counts.entry((topic, Part::Main)).or_default().size += size;
            }
        }
        counts
    }

    /// Bytes that count against the quota of an entity; for a topic those of its subscriptions too.
    fn used(&self, id: u32) -> u64 {
        let subscriptions = self.subscriptions(id);
        let counts = |of: u32| of == id || subscriptions.contains(&of);
        let messages = self.messages.values().filter(|stored| counts(stored.entity)).map(|stored| stored.size);
        let states = self.sessions.iter().filter(|session| counts(session.entity)).map(Session::bytes);
        messages.sum::<u64>() + states.sum::<u64>()
    }
}
