use std::collections::BTreeMap;

use consign::message::PropertyValue;

use super::Part;

/// What a sender gives.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Content {
    pub(crate) body: String,
    /// The broker makes one up if there is none.
    pub(crate) id: Option<String>,
    pub(crate) session: Option<String>,
    pub(crate) key: Option<String>,
    pub(crate) via_key: Option<String>,
    pub(crate) subject: Option<String>,
    pub(crate) ttl: Option<u64>,
    pub(crate) at: Option<i64>,
    pub(crate) application: BTreeMap<String, PropertyValue>,
}

impl Content {
    /// What body and properties count.
    pub(crate) fn bytes(&self) -> u64 {
        let texts = [&self.id, &self.session, &self.key, &self.via_key, &self.subject];
        let texts: usize = texts.into_iter().flatten().map(String::len).sum();
        let times = 8 * (usize::from(self.ttl.is_some()) + usize::from(self.at.is_some()));
        let application: usize = self.application.iter().map(|(key, value)| key.len() + bytes_of(value)).sum();
        (self.body.len() + texts + times + application) as u64
    }

    /// Sets a property of the application, and says by how many bytes that changes the message.
    pub(crate) fn set(&mut self, key: &str, value: Option<PropertyValue>) -> i64 {
        let before = self.bytes().cast_signed();
        match value {
            Some(value) => drop(self.application.insert(key.into(), value)),
            None => drop(self.application.remove(key)),
        }
        self.bytes().cast_signed() - before
    }
}

fn bytes_of(value: &PropertyValue) -> usize {
    match value {
        PropertyValue::String(text) => text.len(),
        PropertyValue::I64(_) | PropertyValue::U64(_) => 8,
        other => panic!("the driver sends no {other:?}"),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Ready,
    Locked,
    Deferred,
    DeferredLocked,
    Scheduled,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lock {
    /// No two are the same.
    pub(crate) number: u64,
    /// The number it had when it was renewed last, or taken.
    pub(crate) since: u64,
    pub(crate) until: u64,
    /// As it is shown, by UTC.
    pub(crate) shown: i64,
}

/// A message in one entity.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) content: Content,
    /// The id that duplicates are found by: the sender's, or the broker's.
    pub(crate) identity: String,
    pub(crate) entity: u32,
    pub(crate) part: Part,
    pub(crate) place: Place,
    pub(crate) sequence: u64,
    /// The number at the entity that it was first sent to.
    pub(crate) origin: u64,
    pub(crate) enqueued: i64,
    /// By the monotonic clock; `None` is never.
    pub(crate) expires: Option<u64>,
    /// As it is shown.
    pub(crate) expires_at: Option<i64>,
    /// When it becomes active, if it is scheduled.
    pub(crate) due: Option<u64>,
    pub(crate) failures: u32,
    pub(crate) lock: Option<Lock>,
    /// How often it was forwarded.
    pub(crate) hops: u8,
    /// It died of its hops, and is not forwarded any more.
    pub(crate) stays: bool,
    /// The dead-letter queue that it was forwarded from.
    pub(crate) source: Option<String>,
    /// What counts against the quota: what was sent, and what the broker wrote into it.
    pub(crate) size: u64,
}

impl Stored {
    pub(crate) fn is_deferred(&self) -> bool {
        matches!(self.place, Place::Deferred | Place::DeferredLocked)
    }

    pub(crate) fn is_locked(&self) -> bool {
        matches!(self.place, Place::Locked | Place::DeferredLocked)
    }

    pub(crate) fn is_expired(&self, now: u64) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }

    /// Writes a property into it, or removes one.
    pub(crate) fn write(&mut self, key: &str, value: Option<PropertyValue>) {
        let growth = self.content.set(key, value);
        self.size = self.size.checked_add_signed(growth).unwrap();
    }
}
