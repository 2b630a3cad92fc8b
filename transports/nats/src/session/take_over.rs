//! The consumers of a session, from one holder to the next.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::Duration,
};

use async_nats::jetstream::ErrorCode;
use consign_core::transport::ErrorKind;
use futures_util::{StreamExt, TryStreamExt, stream};
use serde::Deserialize;
use serde_json::json;
use tokio::time::{Instant, timeout};

use super::accept::{held_elsewhere, read_stored};
use crate::{
    entities::consumer_config, error::Fault, fetch::subjects, message_notes::Note, session_lock::Record, settle,
    source::Source,
};

/// A work queue has one consumer at most for each subject.
const NOT_UNIQUE: u64 = 10100;
/// How many records are read at once.
const READS: usize = 32;

/// The notes of the messages of a session.
type Notes = BTreeMap<u64, Note>;

/// A new holder of a session, whose record is written.
pub(super) struct TakeOver<'a> {
    pub(super) entity: &'a Arc<Source>,
    pub(super) id: &'a str,
    /// The consumer of the new holder.
    pub(super) name: &'a str,
    /// When the record ends. From then on the session may have another holder.
    pub(super) until: Instant,
    pub(super) lease: Duration,
}

#[derive(Deserialize)]
struct ConsumerInfo {
    delivered: Delivered,
}

#[derive(Deserialize)]
struct Delivered {
    stream_seq: u64,
}

/// A page of the list of consumers.
#[derive(Deserialize)]
struct Page {
    total: usize,
    consumers: Option<Vec<Consumer>>,
    /// In a cluster, those about which no server has answered.
    missing: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Consumer {
    name: String,
    config: Config,
}

#[derive(Deserialize)]
struct Config {
    #[serde(default)]
    filter_subject: String,
}

/// Consumers that may keep that of a new holder from being created.
#[derive(Debug, Default, PartialEq, Eq)]
struct Left {
    at_subject: Vec<String>,
    /// Consumers of sessions whose subjects are not known.
    unknown: Vec<String>,
}

impl TakeOver<'_> {
    /// Creates the consumer of the new holder, and removes that of the previous one.
    pub(super) async fn run(&self, before: Option<&str>) -> Result<Notes, Fault> {
        if let Some(before) = before {
            self.inherit(before).await?;
        }
        self.create(before).await
    }

    async fn create(&self, before: Option<&str>) -> Result<Notes, Fault> {
        let subject = self.entity.session_subject(self.id);
        let mut created = self.create_at(self.name, &subject).await;
        if created.as_ref().is_err_and(is_not_unique) {
            // A process that died between locking and cleaning up has left an older one, which no record names.
            self.clean_up(&subject).await?;
            created = self.create_at(self.name, &subject).await;
        }
        if created.as_ref().is_err_and(is_not_unique)
            && let Some(before) = before
        {
            // A server of a cluster may have one that the cluster has deleted, and that no request can name. Creating it again
            // makes it known.
            self.create_at(before, &subject).await.map_err(not_yet)?;
            self.inherit(before).await?;
            created = self.create_at(self.name, &subject).await;
        }
        created.map_err(not_yet)?;
        let notes = self.notes().await?;
        self.check()?;
        Ok(notes)
    }

    async fn create_at(&self, name: &str, subject: &str) -> Result<(), Fault> {
        self.check()?;
        let mut config = consumer_config(name, subject, &self.entity.settings);
        // The session's lock limits the time, and returned messages stay with the holder.
        config["ack_wait"] = json!(365_u64 * 24 * 3_600 * 1_000_000_000);
        self.entity.inner.create_consumer(&self.entity.stream, name, &config).await
    }

    /// Checks whether the record still locks the session: another holder may have it later, with a consumer at the same subject.
    fn check(&self) -> Result<(), Fault> {
        if Instant::now() < self.until { Ok(()) } else { Err(held_elsewhere()) }
    }

    /// Removes the consumers that former holders have left.
    async fn clean_up(&self, subject: &str) -> Result<(), Fault> {
        let Left { at_subject, unknown } = self.left(subject).await?;
        for consumer in at_subject.iter().filter(|consumer| *consumer != self.name) {
            self.inherit(consumer).await?;
        }
        if unknown.is_empty() {
            return Ok(());
        }
        // A record is written before its consumer is created. So one that no record names by now has no holder.
        let owners = self.owners().await?;
        for consumer in unknown.iter().filter(|consumer| !owners.contains(*consumer)) {
            self.delete(consumer).await?;
        }
        Ok(())
    }

    async fn left(&self, subject: &str) -> Result<Left, Fault> {
        let (mut offset, mut left) = (0, Left::default());
        loop {
            let at = format!("CONSUMER.LIST.{}", self.entity.stream);
            let page = self.entity.inner.request::<Page>(&at, &json!({ "offset": offset })).await?;
            let total = page.total;
            let read = left.add(page, subject);
            offset += read;
            if read == 0 || offset >= total {
                return Ok(left);
            }
        }
    }

    /// Returns the consumers that the records of sessions name.
    async fn owners(&self) -> Result<HashSet<String>, Fault> {
        let (inner, beside) = (&self.entity.inner, &self.entity.beside);
        let records = subjects(self.entity, &beside.any_session()).await?;
        let reads = stream::iter(records).map(|subject| async move { Record::read_at(inner, beside, &subject).await });
        let records: Vec<Record> = reads.buffer_unordered(READS).try_collect().await?;
        Ok(records.into_iter().filter_map(|record| record.owner).collect())
    }

    async fn notes(&self) -> Result<Notes, Fault> {
        let (inner, beside) = (&self.entity.inner, &self.entity.beside);
        let mut notes = Notes::new();
        for subject in subjects(self.entity, &beside.mark_of_session(self.id, '*')).await? {
            let number = subject.rsplit('.').next().and_then(|number| number.parse().ok());
            let found = inner.last_at(&beside.stream, &subject).await?;
            if let (Some(number), Some(found)) = (number, found) {
                notes.insert(number, Note::read(&found.headers, &found.payload, found.sequence));
            }
        }
        Ok(notes)
    }

    /// Removes the consumer of a previous holder, whose lock has run out, and counts its deliveries.
    async fn inherit(&self, consumer: &str) -> Result<(), Fault> {
        let inner = &self.entity.inner;
        let at = format!("CONSUMER.INFO.{}.{consumer}", self.entity.stream);
        let info = timeout(self.lease / 3, inner.request::<ConsumerInfo>(&at, &json!({}))).await;
        match info.unwrap_or_else(|_| Err(Fault::timed_out(&at))) {
            Ok(info) => self.count(consumer, info.delivered.stream_seq).await?,
            Err(fault) if fault.kind == ErrorKind::EntityNotFound => return Ok(()),
            // No server leads it. It is deleted by another one, and its deliveries do not count.
            Err(fault) if matches!(fault.kind, ErrorKind::ServiceBusy | ErrorKind::ServiceTimeout) => {}
            Err(fault) => return Err(fault),
        }
        self.delete(consumer).await
    }

    async fn delete(&self, consumer: &str) -> Result<(), Fault> {
        self.check()?;
        match self.entity.inner.delete_consumer(&self.entity.stream, consumer).await {
            Err(fault) if fault.kind == ErrorKind::EntityNotFound => Ok(()),
            deleted => deleted,
        }
    }

    /// Counts the deliveries of a previous holder: an unsettled one counts, and may have been the last delivery.
    async fn count(&self, consumer: &str, delivered: u64) -> Result<(), Fault> {
        let (entity, inner) = (self.entity, &self.entity.inner);
        let subject = entity.session_subject(self.id);
        let mut next = 1;
        while let Some(message) = inner.next_of_leader(&entity.stream, &subject, next).await? {
            if message.sequence > delivered {
                break;
            }
            next = message.sequence + 1;
            let at = entity.beside.mark_of_session(self.id, message.sequence);
            let found = inner.last_at(&entity.beside.stream, &at).await?;
            let mut note =
                found.map(|found| Note::read(&found.headers, &found.payload, found.sequence)).unwrap_or_default();
            // Either the holder has recorded it itself, or its successor has died half-way through this.
            if note.counted_for.as_deref() == Some(consumer) {
                continue;
            }
            note.failed = note.failed.saturating_add(1);
            note.counted_for = Some(consumer.to_owned());
            if note.failed < entity.settings.max_delivery_count {
                note.store(inner, &at).await?;
                continue;
            }
            // It has all values of the headers.
            let direct = inner.next_at(&entity.stream, &subject, message.sequence).await?;
            let direct = direct.filter(|direct| direct.sequence == message.sequence);
            let mut read = read_stored(entity, direct.as_ref().unwrap_or(&message));
            read.in_session(self.id);
            settle::bury_lost(entity, read, &note).await?;
        }
        Ok(())
    }
}

impl Left {
    /// Adds a page, and returns how many consumers it has.
    fn add(&mut self, page: Page, subject: &str) -> usize {
        let (consumers, missing) = (page.consumers.unwrap_or_default(), page.missing.unwrap_or_default());
        let read = consumers.len() + missing.len();
        let of_subject = consumers.into_iter().filter(|consumer| consumer.config.filter_subject == subject);
        self.at_subject.extend(of_subject.map(|consumer| consumer.name));
        self.unknown.extend(missing.into_iter().filter(|name| is_of_session(name)));
        read
    }
}

/// Returns whether a consumer has the name of one of a session: any program may create others.
fn is_of_session(name: &str) -> bool {
    let is_id = |id: &str| id.len() == 32 && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    name.strip_prefix('s').is_some_and(is_id)
}

fn is_not_unique(fault: &Fault) -> bool {
    fault.code == Some(ErrorCode(NOT_UNIQUE))
}

/// A consumer that the server does not list may go later.
fn not_yet(mut fault: Fault) -> Fault {
    if is_not_unique(&fault) {
        fault.kind = ErrorKind::ServiceBusy;
    }
    fault
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consumers_without_an_answer_may_be_those_of_a_session() {
        let of_session = format!("s{}", uuid::Uuid::new_v4().simple());
        let page = json!({
            "total": 5,
            "consumers": [
                { "name": "sa", "config": { "filter_subject": "q.s.a" } },
                { "name": "sb", "config": { "filter_subject": "q.s.b" } },
            ],
            "missing": [of_session, "statistics", "q"],
        });
        let mut left = Left::default();
        assert_eq!(left.add(serde_json::from_value(page).unwrap(), "q.s.a"), 5);
        assert_eq!(left, Left { at_subject: vec!["sa".into()], unknown: vec![of_session] });
    }
}
