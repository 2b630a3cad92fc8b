//! The state of the engine as plain records, for a journal that keeps them: what changed, and an engine restored from them.
//!
//! The engine defines the records and [`RecordSink`]. It depends on no journal and on no encoding.

mod changes;
mod restore;

use std::{collections::BTreeSet, ops::Range};

use bytes::Bytes;
use consign_core::{
    administration::{QueueSettings, SubscriptionSettings, TopicSettings},
    message::{EntityPath, MessageBody, PassThrough, SequenceNumber, Stored, Value},
    time::Timestamp,
};
use consign_rules::RuleSet;

pub(crate) use self::{changes::Identity, restore::Restoring};
use super::Part;
pub(crate) use super::store::PARTITIONS;

/// Takes the records of one batch of changes. An entity is known by its serial, a message by its order there.
pub(crate) trait RecordSink {
    fn put_broker(&mut self, record: &BrokerRecord);
    fn put_entity(&mut self, serial: u64, record: &EntityRecord);
    fn put_counter(&mut self, serial: u64, record: &CounterRecord);
    fn put_session(&mut self, serial: u64, record: &SessionRecord);
    fn put_id(&mut self, serial: u64, number: u64, record: &IdRecord);
    fn put_message(&mut self, serial: u64, order: u64, record: MessageView<'_>);

    /// Removes an entity and its counter. Its messages, sessions and ids are removed one by one.
    fn remove_entity(&mut self, serial: u64);
    fn remove_session(&mut self, serial: u64, id: &str);
    fn remove_id(&mut self, serial: u64, number: u64);
    fn remove_message(&mut self, serial: u64, order: u64);
}

/// The data of the broker as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BrokerRecord {
    /// A random name, which distinguishes one store from another.
    pub(crate) store: [u8; 16],
    pub(crate) created: Timestamp,
    /// The serial of the entity that was created last. None is assigned twice.
    pub(crate) last_serial: u64,
    /// The latest time that was seen, to detect a clock that goes back.
    pub(crate) latest: Timestamp,
}

/// A queue, a topic or a subscription.
#[derive(Clone, Debug)]
pub(crate) struct EntityRecord {
    pub(crate) path: EntityPath,
    pub(crate) kind: EntityKind,
    /// The secret of the digests of its ids, if it detects duplicates.
    pub(crate) secret: Option<[u8; 16]>,
}

#[derive(Clone, Debug)]
pub(crate) enum EntityKind {
    Queue(QueueSettings),
    Topic(TopicSettings),
    Subscription {
        settings: SubscriptionSettings,
        /// The serial of its topic.
        topic: u64,
        /// With the times of their creation.
        rules: Box<RuleSet>,
    },
}

/// The numbers that an entity has assigned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CounterRecord {
    pub(crate) order: u64,
    pub(crate) last_enqueued: Timestamp,
    pub(crate) last: LastNumber,
}

/// The last sequence number, or that of each partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LastNumber {
    Plain(SequenceNumber),
    Partitioned {
        last: [u64; PARTITIONS as usize],
        /// The partition of the next message without a key.
        next: u16,
    },
}

/// A session that has a state. Other sessions exist by their messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SessionRecord {
    pub(crate) id: Box<str>,
    pub(crate) state: Option<Bytes>,
    /// When the state was set last.
    pub(crate) updated: Timestamp,
}

/// An id that an entity has accepted within its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IdRecord {
    /// Under the secret of the entity.
    pub(crate) digest: [u8; 16],
    /// When it was accepted first.
    pub(crate) accepted: Timestamp,
    /// The number of its message, if that is scheduled.
    pub(crate) scheduled: Option<SequenceNumber>,
}

/// A stored message as it is read.
#[derive(Debug)]
pub(crate) struct MessageRecord {
    pub(crate) state: MessageState,
    pub(crate) message: Stored,
}

/// A stored message as it is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MessageView<'a> {
    pub(crate) state: MessageState,
    pub(crate) message: &'a Stored,
}

/// The broker's state of a message besides what was sent. Its order is in its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MessageState {
    pub(crate) part: Part,
    pub(crate) place: Place,
    pub(crate) sequence: SequenceNumber,
    /// The number at the entity that the message was first sent to.
    pub(crate) origin: SequenceNumber,
    pub(crate) enqueued: Timestamp,
    pub(crate) expires_at: Option<Timestamp>,
    /// When a scheduled message is due.
    pub(crate) due: Option<Timestamp>,
    /// The end of its lock, where locks are held over a restart.
    pub(crate) locked_until: Option<Timestamp>,
    /// The size that counts against the quota.
    pub(crate) size: u64,
    pub(crate) failures: u32,
    /// How often it was forwarded.
    pub(crate) hops: u8,
    /// A dead letter that is not forwarded.
    pub(crate) stays: bool,
}

/// The place of a message, or its place before it was locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Ready,
    Deferred,
    Scheduled,
}

/// A deleted entity, as far as records of it may have been kept.
#[derive(Debug)]
pub(super) struct Gone {
    pub(super) serial: u64,
    pub(super) messages: Vec<u64>,
    pub(super) sessions: BTreeSet<Box<str>>,
    pub(super) ids: Range<u64>,
}

/// The maximum depth of nested values. Reading recurses as deep on the stack, and as JSON they can be read as well.
pub(crate) const MAX_DEPTH: usize = 64;

/// A value that is in no other one has a level too.
pub(crate) const LEVELS: usize = MAX_DEPTH + 1;

/// Whether a message can be read again once it is written: no value in it is deeper than [`MAX_DEPTH`].
pub(crate) fn can_be_stored(message: &Stored) -> bool {
    let fits = |value: &Value| value.is_within(LEVELS);
    let body = match message.body() {
        MessageBody::Data(_) => true,
        MessageBody::Value(value) => fits(value),
        MessageBody::Sequence(sections) => sections.iter().flatten().all(fits),
    };
    let annotated = |rest: &PassThrough| rest.annotations.iter().chain(&rest.footer).all(|(_, value)| fits(value));
    body && message.properties().pass_through().is_none_or(annotated)
}
