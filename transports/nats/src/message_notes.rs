//! Facts of a message that the server does not store: deliveries that do not count, and changed properties. They are stored
//! beside the entity, at a subject of its own for each message that needs one.

use async_nats::HeaderMap;
use bytes::Bytes;
use consign_core::{
    Message,
    message::{ApplicationProperties, MessageBody, Properties},
};

use crate::{beside::Beside, connection::Inner, error::Fault, wire};

/// The note of one message.
#[derive(Clone, Debug, Default)]
pub(crate) struct Note {
    /// Deliveries that were not failures.
    pub(crate) uncounted: u64,
    /// Deliveries that failed, as far as they were recorded.
    pub(crate) failed: u32,
    /// Properties that settlements have changed.
    pub(crate) changes: ApplicationProperties,
    /// The holder of the session, by its consumer, whose deliveries are among those that failed.
    pub(crate) counted_for: Option<String>,
    /// Where the note is stored.
    stored: u64,
}

const UNCOUNTED: &str = "Sb-Uncounted";
const FAILED: &str = "Sb-Failed";
const COUNTED_FOR: &str = "Sb-Counted-For";

impl Note {
    pub(crate) fn read(headers: &HeaderMap, payload: &Bytes, stored: u64) -> Self {
        let number = |name| headers.get(name).and_then(|value| value.as_str().parse().ok()).unwrap_or_default();
        // Its other headers are not properties of the message.
        let mut own = HeaderMap::new();
        wire::keep(Some(headers), &mut own, wire::name::is_own);
        // An unreadable note changes nothing.
        let changes = wire::decode(Some(&own), payload.clone()).map(|marked| marked.application_properties().clone());
        let failed = u32::try_from(number(FAILED)).unwrap_or(u32::MAX);
        let counted_for = headers.get(COUNTED_FOR).map(|consumer| consumer.as_str().to_owned());
        Self { uncounted: number(UNCOUNTED), failed, changes: changes.unwrap_or_default(), counted_for, stored }
    }

    /// Stores the note at a subject, in place of the previous one.
    pub(crate) async fn store(&mut self, inner: &Inner, subject: &str) -> Result<(), Fault> {
        let mut properties = Properties::new();
        *properties.application_properties_mut() = self.changes.clone();
        let encoded = wire::encode(&Message::from_parts(properties, MessageBody::empty()));
        let (mut headers, payload) = encoded.map_err(|error| Fault::new(error.kind(), error.to_string()))?;
        headers.insert(UNCOUNTED, self.uncounted.to_string());
        headers.insert(FAILED, self.failed.to_string());
        if let Some(consumer) = &self.counted_for {
            headers.insert(COUNTED_FOR, consumer.as_str());
        }
        self.stored = inner.publish(subject, headers, payload).await?.seq;
        Ok(())
    }

    pub(crate) fn is_stored(&self) -> bool {
        self.stored > 0
    }

    /// Removes the note when its message is removed. A note that cannot be removed is a few bytes that are never read.
    pub(crate) async fn remove(&self, inner: &Inner, beside: &Beside) {
        if self.stored > 0 {
            let _ = inner.remove(&beside.stream, self.stored).await;
        }
    }
}
