use std::{collections::BTreeMap, time::Duration};

use consign::{
    Message,
    administration::Counts as RealCounts,
    message::{MessageState, PropertyValue, SequenceNumber},
    time::Timestamp,
};

use super::{
    Driver,
    world::{Kind, Real},
};
use crate::model::{Counts, Model, Part, Place, Settle, Source, Stored};

/// What can be seen of a message.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Shown {
    pub(super) sequence: u64,
    origin: u64,
    enqueued: i64,
    expires_at: i64,
    state: MessageState,
    dead: bool,
    deliveries: u32,
    pub(super) locked_until: Option<i64>,
    partition: Option<i16>,
    source: Option<String>,
    body: String,
    /// `None` if the broker made it up.
    id: Option<String>,
    session: Option<String>,
    key: Option<String>,
    via_key: Option<String>,
    subject: Option<String>,
    ttl: Option<u64>,
    at: Option<i64>,
    application: BTreeMap<String, String>,
}

/// What is shown of a property. Its own `Debug` hides a text.
fn value(value: &PropertyValue) -> String {
    value.as_str().map_or_else(|| format!("{value:?}"), str::to_owned)
}

/// Compares message by message, so that a failure shows the one that differs.
#[track_caller]
pub(super) fn assert_same(left: &[Shown], right: &[Shown], what: &dyn std::fmt::Debug) {
    for (left, right) in left.iter().zip(right) {
        assert_eq!(left, right, "{what:?}");
    }
    let numbers = |all: &[Shown]| all.iter().map(|shown| shown.sequence).collect::<Vec<_>>();
    assert_eq!(numbers(left), numbers(right), "{what:?}");
}

impl Shown {
    pub(super) fn of_broker(message: &Message) -> Self {
        let facts = message.received().expect("the broker says something of what it delivers");
        let text = |text: Option<&str>| text.map(str::to_owned);
        let id = message.message_id().expect("a message has an id");
        Self {
            sequence: facts.sequence_number.get(),
            origin: facts.enqueued_sequence_number.get(),
            enqueued: facts.enqueued_time.as_millis(),
            expires_at: facts.expires_at.as_millis(),
            state: facts.state,
            dead: facts.dead_lettered,
            deliveries: facts.delivery_count,
            locked_until: facts.locked_until.map(Timestamp::as_millis),
            partition: facts.partition_id,
            source: text(message.dead_letter_source()),
            body: std::str::from_utf8(message.payload().unwrap()).unwrap().to_owned(),
            id: Some(id.to_owned()).filter(|id| id.len() != 32),
            session: text(message.session_id()),
            key: text(message.partition_key()),
            via_key: text(message.transaction_partition_key()),
            subject: text(message.subject()),
            ttl: message.time_to_live().map(|ttl| u64::try_from(ttl.as_millis()).unwrap()),
            at: message.scheduled_enqueue_time().map(Timestamp::as_millis),
            application: message
                .application_properties()
                .iter()
                .map(|(key, its)| (key.to_owned(), value(its)))
                .collect(),
        }
    }

    pub(super) fn of_model(model: &Model, stored: &Stored, deliveries: u32) -> Self {
        let content = stored.content.clone();
        let is_partitioned = model.entity(stored.entity).settings.partitioned;
        Self {
            sequence: stored.sequence,
            origin: if stored.hops > 0 { stored.origin } else { 0 },
            enqueued: stored.enqueued,
            expires_at: stored.expires_at.unwrap_or(Timestamp::MAX.as_millis()),
            state: match stored.place {
                Place::Ready | Place::Locked => MessageState::Active,
                Place::Deferred | Place::DeferredLocked => MessageState::Deferred,
                Place::Scheduled => MessageState::Scheduled,
            },
            dead: stored.part != Part::Main,
            deliveries,
            locked_until: None,
            partition: is_partitioned.then(|| i16::try_from(stored.sequence >> 48).unwrap()),
            source: stored.source.clone(),
            body: content.body,
            id: content.id,
            session: content.session,
            key: content.key,
            via_key: content.via_key,
            subject: content.subject,
            ttl: content.ttl,
            at: content.at,
            application: content.application.into_iter().map(|(key, its)| (key, value(&its))).collect(),
        }
    }
}

impl Driver {
    pub(super) fn model_peek(&mut self, entity: u32, of: Source, from: u64, max: usize) -> Vec<Shown> {
        let peeked: Vec<Stored> = self.model.peek(entity, of, from, max).into_iter().cloned().collect();
        peeked.iter().map(|stored| Shown::of_model(&self.model, stored, stored.shown_failures())).collect()
    }

    /// I1: every message is in one state, and the states of all of them are as many as were accepted and are not gone.
    pub(super) fn compare_counts(&mut self) {
        let expected = self.model.counts();
        let mut total = 0;
        for handle in &self.handles {
            let entity = handle.entity;
            let of = |part| expected.get(&(entity, part)).copied().unwrap_or_default();
            let main = match &handle.real {
                Real::Topic(topic) => topic.counts(),
                Real::Queue(queue) => queue.counts(),
                Real::Subscription(subscription) => subscription.counts(),
            };
            assert_eq!(counts(&main, main.size), of(Part::Main), "{}", handle.path);
            total += sum(&main);
            if let Some(queue) = handle.queue() {
                let dead = queue.dead_letter().counts();
                assert_eq!(counts(&dead, 0), of(Part::Dead), "dead letters of {}", handle.path);
            }
            let transfer = handle.transfer().counts();
            assert_eq!(counts(&transfer, 0), of(Part::Transfer), "transfer dead letters of {}", handle.path);
        }
        assert_eq!(total, self.model.stored - self.model.gone, "messages in all");
    }

    /// What is shown to people is what the model counts.
    fn compare_snapshot(&mut self) {
        let expected = self.model.counts();
        let snapshot = self.broker.snapshot();
        assert_eq!(snapshot.taken_at.as_millis(), self.model.utc);
        assert_eq!(snapshot.entities.len(), self.model.entities.len());
        let alive = self.handles.iter().filter(|handle| self.model.entities.contains_key(&handle.entity));
        for handle in alive {
            let found = snapshot.entities.iter().find(|entity| *entity.path == *handle.path);
            let found = found.unwrap_or_else(|| panic!("{} is not shown", handle.path));
            let shown = Counts {
                active: found.active,
                locked: found.locked,
                deferred: found.deferred,
                scheduled: found.scheduled,
                dead_lettered: found.dead_lettered,
                transfer_dead_lettered: found.transfer_dead_lettered,
                size: found.size,
            };
            let of = expected.get(&(handle.entity, Part::Main)).copied().unwrap_or_default();
            assert_eq!(shown, of, "{}", handle.path);
            let oldest = |is_it: &dyn Fn(&Stored) -> bool| {
                let its = self.model.messages.values().filter(|it| it.entity == handle.entity && is_it(it));
                let age = its.map(|it| it.enqueued).min().map(|enqueued| self.model.utc - enqueued);
                age.map(|age| Duration::from_millis(u64::try_from(age).unwrap_or(0)))
            };
            let main = |it: &Stored, place| it.part == Part::Main && it.place == place;
            assert_eq!(found.oldest_active, oldest(&|it| main(it, Place::Ready)), "{}", handle.path);
            assert_eq!(found.oldest_deferred, oldest(&|it| main(it, Place::Deferred)), "{}", handle.path);
            assert_eq!(found.oldest_dead_letter, oldest(&|it| it.part == Part::Dead), "{}", handle.path);
        }
    }

    pub(super) fn compare_all(&mut self) {
        self.compare_snapshot();
        for at in 0..self.handles.len() {
            let is_topic = self.handles[at].kind == Kind::Topic;
            let parts =
                if is_topic { &[Part::Main, Part::Transfer][..] } else { &[Part::Main, Part::Dead, Part::Transfer] };
            for &part in parts {
                self.compare_peek(at, part, 0, usize::MAX);
            }
        }
    }

    pub(super) fn compare_peek(&mut self, at: usize, part: Part, from: u64, max: usize) {
        let (handle, number) = (&self.handles[at], SequenceNumber::new(from));
        let peeked = match (&handle.real, part) {
            (_, Part::Transfer) => handle.transfer().peek(number, max),
            (Real::Topic(topic), _) => topic.peek(number, max),
            (_, Part::Main) => handle.queue().unwrap().peek(number, max),
            (_, Part::Dead) => handle.queue().unwrap().dead_letter().peek(number, max),
        };
        let peeked: Vec<_> = peeked.iter().map(Shown::of_broker).collect();
        let path = handle.path;
        let expected = self.model_peek(handle.entity, Source::Part(part), from, max);
        assert_same(&peeked, &expected, &(part, path));
    }

    /// Gives back what is held, lets everything end that ends by itself, and takes the rest.
    pub(super) fn drain(&mut self) {
        self.last = "the end";
        while !self.transactions.is_empty() {
            self.drop_transaction();
        }
        while !self.held.is_empty() {
            self.drop_held(0);
        }
        while !self.sessions.is_empty() {
            self.drop_session_at(0);
        }
        for at in 0..self.handles.len() {
            self.stay_here(at);
        }
        // Longer than any lock or time to live, and than the time that a scheduled message waits.
        for _ in 0..8 {
            self.advance(11_000);
            self.compare_counts();
        }
        // The wall clock may be hours behind what a message that was forwarded waits for.
        self.advance(90 * 24 * 3_600_000);
        self.compare_counts();
        self.compare_all();
        for at in 0..self.handles.len() {
            for part in [Part::Main, Part::Dead, Part::Transfer] {
                self.take_all(at, part);
            }
        }
        self.compare_counts();
        let left = |stored: &&Stored| stored.place != Place::Deferred || stored.part != Part::Main;
        assert_eq!(
            self.model.messages.values().find(left).map(|it| &it.content),
            None,
            "deferred ones that expired stay"
        );
    }

    /// Takes what there is, deferred messages too if they have not expired.
    fn take_all(&mut self, at: usize, part: Part) {
        let handle = self.handles[at].clone();
        if !self.model.entities.contains_key(&handle.entity) {
            return;
        }
        let queue = match (handle.queue(), part) {
            (_, Part::Transfer) => handle.transfer(),
            (Some(queue), Part::Main) => queue.clone(),
            (Some(queue), Part::Dead) => queue.dead_letter(),
            (None, _) => return,
        };
        if part == Part::Main && self.model.entity(handle.entity).settings.sessions {
            return self.take_sessions(at);
        }
        let received = super::receive::take_deleted(&self.broker, &mut queue.receive_and_delete(), usize::MAX);
        let expected = self.model.receive_and_delete(handle.entity, Source::Part(part), usize::MAX);
        self.compare_deleted(received, expected);
        for number in self.model_peek(handle.entity, Source::Part(part), 0, usize::MAX) {
            let number = [number.sequence];
            let received = queue.receive_deferred(&super::receive::sequence_numbers(&number));
            let expected = self.model.receive_deferred(handle.entity, Source::Part(part), &number);
            self.keep(handle.entity, received.map_err(|error| error.kind()), expected, false);
            while let Some(held) = self.held.pop() {
                self.settle_held(held, &Settle::Complete);
            }
        }
    }

    fn take_sessions(&mut self, at: usize) {
        let entity = self.handles[at].entity;
        let queue = self.handles[at].queue().unwrap().clone();
        let sessions = queue.sessions();
        assert_eq!(sessions, self.model.session_ids(entity));
        for id in sessions {
            let mut receiver = queue.accept_session(&id).unwrap();
            let holder = self.model.accept_session(entity, Some(&id)).unwrap().unwrap();
            loop {
                let received = super::receive::take(&mut receiver, 10);
                let expected = self.model.receive(entity, Source::Session(&holder), 10);
                self.keep(entity, received, expected, true);
                if self.held.is_empty() {
                    break;
                }
                while let Some(held) = self.held.pop() {
                    self.settle_held(held, &Settle::Complete);
                }
            }
            for left in self.model_peek(entity, Source::Session(&holder), 0, usize::MAX) {
                let number = [left.sequence];
                let received = receiver.receive_deferred(&super::receive::sequence_numbers(&number));
                let expected = self.model.receive_deferred(entity, Source::Session(&holder), &number);
                self.keep(entity, received.map_err(|error| error.kind()), expected, true);
                while let Some(held) = self.held.pop() {
                    self.settle_held(held, &Settle::Complete);
                }
            }
            let (cleared, expected) = (receiver.set_state(None).wait(), self.model.set_session_state(&holder, None));
            assert_eq!(cleared.map_err(|error| error.kind()), expected);
            drop(receiver);
            self.model.close_session(&holder).unwrap();
        }
    }
}

fn counts(counts: &RealCounts, size: u64) -> Counts {
    Counts {
        active: counts.active,
        locked: counts.locked,
        deferred: counts.deferred,
        scheduled: counts.scheduled,
        dead_lettered: counts.dead_lettered,
        transfer_dead_lettered: counts.transfer_dead_lettered,
        size,
    }
}

fn sum(counts: &RealCounts) -> usize {
    let of_main = counts.active + counts.locked + counts.deferred + counts.scheduled;
    of_main + counts.dead_lettered + counts.transfer_dead_lettered
}
