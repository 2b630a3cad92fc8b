//! The entities of a broker as one deterministic state machine: commands and the time are its input, effects its
//! output. It has no clock, no task and no I/O.
//!
//! All entities are in one machine, so that an operation on several is one step: a forward, the copies of a topic, a
//! transaction. `store` has one entity's messages and does not depend on other entities; the modules here move
//! messages between them.

mod accept;
mod admin;
mod check;
mod commands;
mod declare;
mod effects;
mod forward;
mod idle;
mod ids;
mod load;
mod notice;
#[cfg(feature = "durable")]
pub(super) mod record;
mod space;
mod store;
mod time;
mod topic;
mod transaction;

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
};

use slab::Slab;

pub use self::store::{Ages, Totals};
pub(super) use self::{
    accept::arrival,
    admin::Change,
    check::MAX_BATCH,
    effects::{Dropped, Line},
    ids::{Part, StoreId},
    store::{Accepted, Arrival, Locked, Peeked, Refused, Settlement, Source},
    time::{NEVER, Now, Ticks},
    transaction::{Operations, PlannedSend, PlannedSettlement, Rejected},
};
use self::{
    effects::Effects,
    notice::{LastSaid, Notice},
    store::{Event, Store},
};
use consign_core::{
    administration::{SubscriptionSettings, TopicSettings},
    message::EntityPath,
};
use consign_rules::RuleSet;

#[cfg(feature = "durable")]
pub(super) use self::{
    effects::Wanted,
    store::{say_expired, show},
};
use super::Quirks;

/// The number of instants that are kept besides two for each entity.
const SPARE_INSTANTS: usize = 64;

/// All entities of a broker.
#[derive(Debug)]
pub(super) struct Engine {
    entities: Slab<Entity>,
    names: BTreeMap<Box<str>, StoreId>,
    /// When the engine checks an entity. Its next event may be due later than this, but never earlier.
    due: BinaryHeap<Reverse<(Ticks, StoreId)>>,
    next_due: Ticks,
    /// Whether events that are due, or messages to be forwarded, wait for the disk.
    #[cfg(feature = "durable")]
    is_held: bool,
    fx: Effects,
    last_serial: u64,
    quirks: Quirks,
}

#[derive(Debug)]
struct Entity {
    path: EntityPath,
    role: Role,
    store: Store,
    /// The names of the entities to which it forwards messages.
    forward_to: Option<Box<str>>,
    forward_dead_letters_to: Option<Box<str>>,
    last_said: LastSaid,
}

/// What an entity does with a message that it has accepted.
#[derive(Debug)]
enum Role {
    /// It is stored.
    Queue,
    /// It is copied to subscriptions; only scheduled messages are stored.
    Topic(Box<Topic>),
    /// As in a queue; the topic copies the messages that a rule selects.
    Subscription(Box<Subscription>),
}

#[derive(Debug)]
struct Topic {
    settings: TopicSettings,
    /// By name.
    subscriptions: BTreeMap<Box<str>, StoreId>,
}

#[derive(Debug)]
struct Subscription {
    name: Box<str>,
    settings: SubscriptionSettings,
    topic: StoreId,
    rules: RuleSet,
}

impl Engine {
    pub(super) fn quirks(&self) -> Quirks {
        self.quirks
    }

    pub(super) fn new(quirks: Quirks) -> Self {
        Self {
            entities: Slab::new(),
            names: BTreeMap::new(),
            due: BinaryHeap::new(),
            next_due: NEVER,
            #[cfg(feature = "durable")]
            is_held: false,
            fx: Effects::default(),
            last_serial: 0,
            quirks,
        }
    }

    /// Applies everything that was due by `now`, each event at its own instant and in the order of these. On a disk, the
    /// rest follows with the next batch when this one has enough.
    #[inline]
    pub(super) fn advance(&mut self, now: Now) {
        if self.next_due <= now.ticks {
            self.run_due(now);
        }
    }

    #[cold]
    fn run_due(&mut self, now: Now) {
        while let Some(&Reverse((at, id))) = self.due.peek() {
            if at > now.ticks {
                break;
            }
            #[cfg(feature = "durable")]
            if self.fx.has_enough_unwritten() {
                // No timer waits for it: the batch is taken by itself.
                (self.is_held, self.next_due) = (true, NEVER);
                return;
            }
            self.due.pop();
            let Some(entity) = entity_mut(&mut self.entities, id) else { continue };
            if entity.store.armed() != at {
                continue;
            }
            entity.store.disarm();
            match entity.store.next_event() {
                Some((_, Event::DeadLettersAgain)) if entity.store.skip_retries(now.ticks) => {}
                Some((instant, Event::Idle)) if instant <= at => self.delete_idle(now, id),
                Some((instant, event)) if instant <= at => self.happen(now.at(instant), id, event),
                Some((later, _)) => entity.store.arm(later, &mut self.fx),
                None => {}
            }
            self.finish(now.at(at));
            if let Some(entity) = entity_mut(&mut self.entities, id)
                && let Some((next, _)) = entity.store.next_event()
            {
                entity.store.arm(next, &mut self.fx);
                self.take_due();
            }
        }
        self.next_due = self.due.peek().map_or(NEVER, |Reverse((at, _))| *at);
    }

    /// Forwards messages, and applies events, that have waited for the disk.
    #[cfg(feature = "durable")]
    fn go_on(&mut self, now: Now) {
        if std::mem::take(&mut self.is_held) {
            self.finish(now);
            self.run_due(now);
        }
    }

    fn happen(&mut self, now: Now, id: StoreId, event: Event) {
        let Some(entity) = entity_mut(&mut self.entities, id) else { return };
        if let Some(mut arrival) = entity.store.happen(now.ticks, event, &mut self.fx) {
            entity.store.touch(now);
            accept::clamp(&mut arrival.message, entity.store.settings().default_time_to_live);
            self.arrive(now, id, arrival);
        }
    }

    /// Forwards the messages that a command left for other entities.
    #[inline]
    fn finish(&mut self, now: Now) {
        if self.fx.is_noted() {
            self.finish_noted(now);
        }
    }

    fn finish_noted(&mut self, now: Now) {
        if !self.fx.note().leaving.is_empty() {
            self.hand_over(now);
        }
        self.take_due();
    }

    fn take_due(&mut self) {
        for (at, id) in self.fx.note().due.drain(..) {
            self.due.push(Reverse((at, id)));
            self.next_due = self.next_due.min(at);
        }
        if self.due.len() > 2 * self.entities.len() + SPARE_INSTANTS {
            self.forget_instants();
        }
    }

    /// Removes replaced instants, which would otherwise stay until they are due, which may be years.
    #[cold]
    fn forget_instants(&mut self) {
        let armed = self.entities.iter().map(|(_, entity)| (entity.store.armed(), entity.store.id()));
        self.due = armed.filter(|&(at, _)| at != NEVER).map(Reverse).collect();
    }

    /// Returns the instant before which no event is due.
    #[inline]
    pub(super) fn next_deadline(&self) -> Option<Ticks> {
        (self.next_due != NEVER).then_some(self.next_due)
    }

    /// Whether the caller has nothing left to do.
    #[inline]
    pub(super) fn is_quiet(&self) -> bool {
        !self.fx.is_noted()
    }

    /// Returns the lines of all items that receivers may take since the last call.
    #[inline]
    pub(super) fn arrivals(&mut self) -> &mut Vec<Line> {
        &mut self.fx.note().arrivals
    }

    /// Returns the entities that were deleted since the last call.
    #[inline]
    pub(super) fn closed(&mut self) -> &mut Vec<StoreId> {
        &mut self.fx.note().closed
    }

    /// Returns an empty engine that replaces this one.
    #[cold]
    pub(super) fn without_entities(&self) -> Self {
        Self { last_serial: self.last_serial, ..Self::new(self.quirks) }
    }

    /// Returns removed messages and entities, if there are any, to be dropped where no lock is held.
    #[inline]
    pub(super) fn take_dropped(&mut self) -> Option<Dropped> {
        self.fx.take_dropped()
    }

    #[inline]
    fn entity(&self, id: StoreId) -> Option<&Entity> {
        self.entities.get(id.index as usize).filter(|entity| entity.store.id() == id)
    }
}

/// A function of the field alone, so that the effects can be borrowed besides it.
#[inline]
fn entity_mut(entities: &mut Slab<Entity>, id: StoreId) -> Option<&mut Entity> {
    entities.get_mut(id.index as usize).filter(|entity| entity.store.id() == id)
}

#[cfg(test)]
mod tests {
    use consign_core::{
        Message,
        administration::QueueSettings,
        time::{Moment, Timestamp},
    };

    use super::*;

    /// Rules: S-28.
    /// The thread that calls last has read the clock first.
    #[test]
    fn a_lock_ends_in_time_though_its_call_was_overtaken() {
        let at = |millis: u64| Now { ticks: millis * 1_000_000, utc: Timestamp::EPOCH };
        let mut engine = Engine::new(Quirks::default());
        let settings = QueueSettings::default().lock_duration(std::time::Duration::from_secs(10));
        let id = engine.create(at(0), EntityPath::new("orders").unwrap(), Change::Queue(settings), None).unwrap();
        let main = Source::Part(Part::Main);
        for millis in [5, 3, 4, 1] {
            engine.send(at(millis), id, arrival(Message::new(""), None)).unwrap();
            assert_eq!(engine.receive(at(millis), id, main, 1, |_| {}).unwrap(), 1);
        }
        let locked = (10_000..10_006).map(|millis| engine.counts(at(millis), id, Part::Main).locked);
        assert!(locked.eq([4, 3, 3, 2, 1, 0]));
    }

    /// Each is earlier than the one before it, and is taken back.
    #[test]
    fn instants_that_are_not_waited_for_any_more_are_forgotten() {
        let mut engine = Engine::new(Quirks::default());
        let now = Moment { elapsed: std::time::Duration::ZERO, utc: Timestamp::EPOCH }.into();
        let path = EntityPath::new("orders").unwrap();
        let id = engine.create(now, path, Change::Queue(QueueSettings::default()), None).unwrap();
        for millis in (1_000..3_000).rev() {
            let at = Some(Timestamp::from_millis(millis));
            let numbers = engine.send_all(now, id, vec![arrival(Message::new(""), at)], false).unwrap();
            engine.cancel(now, id, &numbers).unwrap();
        }
        assert!(engine.due.len() < 100, "{}", engine.due.len());
        assert_eq!(engine.next_deadline().map(|at| at / 1_000_000), Some(1_000));
    }
}
