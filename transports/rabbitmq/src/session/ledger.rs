//! The records that outlive the holder of a session: its state, and the failures of its messages.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use consign_core::{time::Timestamp, transport::ErrorKind};
use lapin::{
    BasicProperties, Channel, Confirmation,
    options::{BasicAckOptions, BasicGetOptions, BasicNackOptions, BasicPublishOptions},
    types::{AMQPValue, FieldTable},
};

use crate::{error::Failure, wire::names};

const PERSISTENT: u8 = 2;
/// How many outdated records the log of a slot may have while it is open.
const SPARE: usize = 256;

/// The record of one session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) state: Option<Bytes>,
    /// Failed deliveries by sequence number.
    pub(super) failures: BTreeMap<u64, u32>,
    /// Whether the log differs.
    pub(super) is_dirty: bool,
}

impl Record {
    fn is_empty(&self) -> bool {
        self.state.is_none() && self.failures.is_empty()
    }
}

/// The records of the sessions of a slot.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    records: HashMap<String, Record>,
    /// The version of the newest record.
    version: u64,
    /// Records that were written since the log was read.
    written: usize,
}

/// A record to be written.
pub(super) struct Note {
    id: String,
    version: u64,
    record: Record,
}

impl Ledger {
    pub(super) fn get(&self, id: &str) -> Option<&Record> {
        self.records.get(id)
    }

    pub(super) fn change(&mut self, id: &str, change: impl FnOnce(&mut Record)) {
        let record = self.records.entry(id.to_owned()).or_default();
        change(record);
        record.is_dirty = true;
    }

    /// Records that a message was settled.
    pub(super) fn settled(&mut self, id: &str, number: u64) {
        if let Some(record) = self.records.get_mut(id) {
            record.is_dirty |= record.failures.remove(&number).is_some();
        }
    }

    /// Returns the next record of a session. The newest record counts, in whichever order they are stored. Its version is no less
    /// than the time: the record of a former holder, which no one has read, may be stored later than this one.
    pub(super) fn note(&mut self, id: &str, now: Timestamp) -> Note {
        let micros = now.as_millis().max(0).unsigned_abs().saturating_mul(1_000);
        self.version = (self.version + 1).max(micros);
        self.written += 1;
        let record = self.records.entry(id.to_owned()).or_default();
        record.is_dirty = false;
        let note = Note { id: id.to_owned(), version: self.version, record: record.clone() };
        if note.record.is_empty() {
            self.records.remove(id);
        }
        note
    }

    /// Returns records that the log does not have so far.
    pub(super) fn dirty(&mut self, now: Timestamp) -> Vec<Note> {
        let dirty = self.records.iter().filter(|(_, record)| record.is_dirty);
        let ids: Vec<String> = dirty.map(|(id, _)| id.clone()).collect();
        ids.iter().map(|id| self.note(id, now)).collect()
    }

    /// Returns whether the log is far longer than its contents.
    pub(super) fn is_long(&self) -> bool {
        self.written > SPARE + self.records.len()
    }

    pub(super) fn was_shortened(&mut self) {
        self.written = 0;
    }

    /// Reads a log, and removes outdated records from it.
    pub(super) async fn read(channel: &Channel, queue: &str) -> lapin::Result<Self> {
        let mut newest: HashMap<String, (u64, u64, Record)> = HashMap::new();
        let mut useless = Vec::new();
        let mut ledger = Self::default();
        while let Some(message) = channel.basic_get(queue.into(), BasicGetOptions::default()).await? {
            let tag = message.delivery.delivery_tag;
            let Some((id, version, record)) = parse(&message.delivery.properties, message.delivery.data.into()) else {
                useless.push(tag);
                continue;
            };
            ledger.version = ledger.version.max(version);
            match newest.get(&id) {
                Some((known, ..)) if *known > version => useless.push(tag),
                _ => useless.extend(newest.insert(id, (version, tag, record)).map(|(_, tag, _)| tag)),
            }
        }
        for (id, (_, tag, record)) in newest {
            if record.is_empty() {
                useless.push(tag);
                continue;
            }
            let back = BasicNackOptions { multiple: false, requeue: true };
            channel.basic_nack(tag, back).await?;
            ledger.records.insert(id, record);
        }
        // Last: a record that is removed was replaced by one that is kept.
        for tag in useless {
            channel.basic_ack(tag, BasicAckOptions::default()).await?;
        }
        Ok(ledger)
    }
}

impl Note {
    /// Writes the record, by a channel with confirms.
    pub(super) async fn write(self, channel: &Channel, queue: &str) -> Result<(), Failure> {
        let mut headers = FieldTable::default();
        headers.insert(names::SESSION_ID.into(), AMQPValue::LongString(self.id.as_str().into()));
        headers.insert(names::VERSION.into(), AMQPValue::LongLongInt(self.version.cast_signed()));
        headers.insert(names::HAS_STATE.into(), AMQPValue::Boolean(self.record.state.is_some()));
        let mut failures = FieldTable::default();
        for (number, count) in &self.record.failures {
            failures.insert(number.to_string().into(), AMQPValue::LongLongInt((*count).into()));
        }
        headers.insert(names::FAILURES.into(), AMQPValue::FieldTable(failures));
        let properties = BasicProperties::default().with_delivery_mode(PERSISTENT).with_headers(headers);
        let state = self.record.state.unwrap_or_default();
        let options = BasicPublishOptions { mandatory: true, immediate: false };
        match channel.basic_publish("".into(), queue.into(), options, &state, properties).await?.await? {
            Confirmation::Ack(None) => Ok(()),
            Confirmation::Ack(Some(_)) | Confirmation::Nack(Some(_)) => {
                Err(Failure::new(ErrorKind::EntityNotFound, "the queue of the states of sessions is gone"))
            }
            _ => Err(Failure::new(ErrorKind::General, "the broker refused the record of a session")),
        }
    }
}

/// A record with a later version is of no client of this crate.
const LAST_VERSION: u64 = 1 << 62;

fn parse(properties: &BasicProperties, payload: Bytes) -> Option<(String, u64, Record)> {
    let headers = properties.headers().as_ref()?.inner();
    let AMQPValue::LongString(id) = headers.get(names::SESSION_ID)? else { return None };
    let AMQPValue::LongLongInt(version) = headers.get(names::VERSION)? else { return None };
    let has_state = matches!(headers.get(names::HAS_STATE), Some(AMQPValue::Boolean(true)));
    let mut record = Record { state: has_state.then_some(payload), ..Record::default() };
    if let Some(AMQPValue::FieldTable(failures)) = headers.get(names::FAILURES) {
        for (number, count) in failures {
            if let (Ok(number), AMQPValue::LongLongInt(count)) = (number.as_str().parse(), count) {
                record.failures.insert(number, u32::try_from(*count).unwrap_or(u32::MAX).min(u32::MAX - 1));
            }
        }
    }
    // Any program that may publish writes records.
    let version = u64::try_from(*version).ok().filter(|version| *version <= LAST_VERSION)?;
    Some((str::from_utf8(id.as_bytes()).ok()?.to_owned(), version, record))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(version: i64, failures: i64) -> BasicProperties {
        let mut counts = FieldTable::default();
        counts.insert("7".into(), AMQPValue::LongLongInt(failures));
        let mut headers = FieldTable::default();
        headers.insert(names::SESSION_ID.into(), AMQPValue::LongString("a".into()));
        headers.insert(names::VERSION.into(), AMQPValue::LongLongInt(version));
        headers.insert(names::FAILURES.into(), AMQPValue::FieldTable(counts));
        BasicProperties::default().with_headers(headers)
    }

    /// The clock of another holder may be behind.
    #[test]
    fn a_version_is_no_less_than_the_time_and_never_lower_than_before() {
        let mut ledger = Ledger::default();
        let versions = [1_000, 1_000, 2_000, -1].map(|at| ledger.note("a", Timestamp::from_millis(at)).version);
        assert_eq!(versions, [1_000_000, 1_000_001, 2_000_000, 2_000_001]);
        assert!(ledger.note("a", Timestamp::MAX).version < LAST_VERSION);
    }

    /// Another program may write any record.
    #[test]
    fn numbers_of_a_record_can_be_incremented() {
        let failures = |count| parse(&record(1, count), Bytes::new()).expect("a record").2.failures[&7];
        assert_eq!([3, -1, i64::from(u32::MAX), i64::MAX].map(failures), [3, u32::MAX - 1, u32::MAX - 1, u32::MAX - 1]);
        for version in [-1, i64::MIN, i64::MAX] {
            assert!(parse(&record(version, 0), Bytes::new()).is_none(), "{version}");
        }
    }
}
