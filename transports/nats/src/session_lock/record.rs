//! The stored record of a session: its holder, the end of the lock, and the state, in one message. A write names the one that
//! it replaces, so of two writers one fails.

use async_nats::HeaderMap;
use bytes::Bytes;
use consign_core::time::Timestamp;

use crate::{beside::Beside, connection::Inner, error::Fault};

const OWNER: &str = "Sb-Owner";
const UNTIL: &str = "Sb-Locked-Until";
const STATE: &str = "Sb-State";

/// The record of one session.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record {
    /// The consumer of the holder.
    pub(crate) owner: Option<String>,
    /// By the server's clock.
    pub(crate) until: Timestamp,
    pub(crate) state: Option<Bytes>,
    /// Where it is stored; 0 if it is not stored.
    pub(crate) stored: u64,
}

/// Returns whether a written record reports a free session.
pub(crate) fn is_free(headers: Option<&HeaderMap>) -> bool {
    headers.is_none_or(|headers| headers.get(OWNER).is_none())
}

impl Record {
    pub(crate) async fn read(inner: &Inner, beside: &Beside, id: &str) -> Result<Self, Fault> {
        Self::read_at(inner, beside, &beside.session(id)).await
    }

    /// Reads the record at its subject.
    pub(crate) async fn read_at(inner: &Inner, beside: &Beside, subject: &str) -> Result<Self, Fault> {
        let Some(found) = inner.last_at(&beside.stream, subject).await? else {
            return Ok(Self::default());
        };
        let said = |name| found.headers.get(name).map(async_nats::HeaderValue::as_str);
        Ok(Self {
            owner: said(OWNER).map(String::from),
            until: Timestamp::from_millis(said(UNTIL).and_then(|until| until.parse().ok()).unwrap_or_default()),
            state: said(STATE).map(|_| found.payload.clone()),
            stored: found.sequence,
        })
    }

    /// Writes the record in place of the one that was read or written before. `false` if another process has done so.
    pub(crate) async fn write(&mut self, inner: &Inner, beside: &Beside, id: &str) -> Result<bool, Fault> {
        let mut headers = HeaderMap::new();
        headers.insert(async_nats::header::NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, self.stored.to_string());
        if let Some(owner) = &self.owner {
            headers.insert(OWNER, owner.as_str());
        }
        headers.insert(UNTIL, self.until.as_millis().to_string());
        if self.state.is_some() {
            headers.insert(STATE, "1");
        }
        let payload = self.state.clone().unwrap_or_default();
        match inner.publish(&beside.session(id), headers, payload).await {
            Ok(stored) => {
                self.stored = stored.seq;
                Ok(true)
            }
            Err(fault) if fault.is_wrong_last_sequence() => Ok(false),
            Err(fault) => Err(fault),
        }
    }
}
