use bytes::Bytes;
use consign_core::{message::PropertyValue, wire};
use rdkafka::{
    message::{Header, OwnedHeaders},
    producer::{BaseRecord, FutureRecord},
};

use crate::names;

/// What a producer sends: all of a record but its topic and its partition.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Record {
    /// The headers.
    pub headers: OwnedHeaders,
    /// The key, by which the producer selects the partition.
    pub key: Option<Bytes>,
    /// The payload. `None` is a tombstone: a compacted topic deletes the key.
    pub payload: Option<Bytes>,
    /// The time of the record, in milliseconds since 1970. `None` is the time at which the producer sends it.
    pub timestamp: Option<i64>,
}

impl Record {
    /// Returns the record for a `FutureProducer`. Select a partition by [`FutureRecord::partition`].
    #[must_use]
    pub fn to<'a>(&'a self, topic: &'a str) -> FutureRecord<'a, [u8], [u8]> {
        FutureRecord {
            topic,
            partition: None,
            payload: self.payload.as_deref(),
            key: self.key.as_deref(),
            timestamp: self.timestamp,
            headers: Some(self.headers.clone()),
        }
    }

    /// Returns the record for a `BaseProducer` or a `ThreadedProducer`.
    #[must_use]
    pub fn to_base<'a>(&'a self, topic: &'a str) -> BaseRecord<'a, [u8], [u8]> {
        let mut record = BaseRecord::to(topic).headers(self.headers.clone());
        (record.payload, record.key, record.timestamp) = (self.payload.as_deref(), self.key.as_deref(), self.timestamp);
        record
    }

    pub(crate) fn header(&mut self, key: &str, value: Option<&[u8]>) {
        let headers = std::mem::take(&mut self.headers);
        self.headers = headers.insert(Header { key, value });
    }

    /// Adds an application property: a text under its name, another value as `TYPE:VALUE`.
    pub(crate) fn property(&mut self, name: &str, value: &PropertyValue) {
        match value {
            PropertyValue::String(text) if names::is_plain(name) => self.header(name, Some(text.as_bytes())),
            PropertyValue::Null if names::is_plain(name) => self.header(name, None),
            value => self.typed(name, &wire::text::write(value)),
        }
    }

    pub(crate) fn typed(&mut self, name: &str, value: &str) {
        self.header(&format!("{}{}", wire::fields::PROPERTY, names::token(name)), Some(value.as_bytes()));
    }
}
