//! Reads of stored messages. In a cluster any replica answers a direct read, and may lack the last writes. The leader has
//! them all.

use std::future::Future;

use async_nats::jetstream::{
    message::StreamMessage,
    stream::{DirectGetError, DirectGetErrorKind, RawMessage},
};
use consign_core::transport::ErrorKind;
use serde::Deserialize;
use serde_json::{Value as Json, json};
use tokio::time::Instant;

use crate::{
    connection::Inner,
    error::{Fault, general},
};

impl Inner {
    /// Returns the last message at a subject, with its number in the stream. Of a header with several values it has the last.
    pub(crate) async fn last_at(&self, stream: &str, subject: &str) -> Result<Option<StreamMessage>, Fault> {
        self.of_leader(stream, json!({ "last_by_subj": subject })).await
    }

    /// Returns the first message of a stream from `from` on that is at a subject. Of a header with several values it has the
    /// last.
    pub(crate) async fn next_of_leader(
        &self,
        stream: &str,
        subject: &str,
        from: u64,
    ) -> Result<Option<StreamMessage>, Fault> {
        self.of_leader(stream, json!({ "seq": from.max(1), "next_by_subj": subject })).await
    }

    async fn of_leader(&self, stream: &str, which: Json) -> Result<Option<StreamMessage>, Fault> {
        #[derive(Deserialize)]
        struct Found {
            message: RawMessage,
        }
        match self.request::<Found>(&format!("STREAM.MSG.GET.{stream}"), &which).await {
            Ok(found) => StreamMessage::try_from(found.message).map(Some).map_err(|error| general(&error)),
            Err(fault) if fault.kind == ErrorKind::MessageNotFound => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    /// Returns the last message at a subject by a direct read.
    pub(crate) async fn peek_at(&self, stream: &str, subject: &str) -> Result<Option<StreamMessage>, Fault> {
        let asked = async {
            let stream = self.context.get_stream_no_info(stream).await.map_err(|error| general(&error))?;
            found(stream.direct_get_last_for_subject(subject).await)
        };
        self.in_time(stream, asked).await
    }

    /// Returns the first message of a stream from `from` on that is at a subject, by a direct read.
    pub(crate) async fn next_at(&self, stream: &str, subject: &str, from: u64) -> Result<Option<StreamMessage>, Fault> {
        let asked = async {
            let stream = self.context.get_stream_no_info(stream).await.map_err(|error| general(&error))?;
            found(stream.direct_get_next_for_subject(subject, Some(from.max(1))).await)
        };
        self.in_time(stream, asked).await
    }

    async fn in_time<T>(&self, stream: &str, read: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
        let began = Instant::now();
        let read = tokio::time::timeout(self.timeout, read).await.unwrap_or_else(|_| Err(Fault::timed_out("a read")));
        read.map_err(|fault| self.refusals.explain(&format!(".GET.{stream}"), began, fault))
    }

    /// Removes one message of a stream. Does nothing if it does not exist.
    pub(crate) async fn remove(&self, stream: &str, number: u64) -> Result<(), Fault> {
        let subject = format!("STREAM.MSG.DELETE.{stream}");
        match self.request::<Json>(&subject, &json!({ "seq": number, "no_erase": true })).await {
            Err(fault) if fault.has_no_message() => Ok(()),
            other => other.map(drop),
        }
    }
}

fn found(read: Result<StreamMessage, DirectGetError>) -> Result<Option<StreamMessage>, Fault> {
    match read {
        Ok(message) => Ok(Some(message)),
        Err(error) => match error.kind() {
            DirectGetErrorKind::NotFound => Ok(None),
            DirectGetErrorKind::TimedOut => Err(Fault::timed_out("a read")),
            _ => Err(Fault::broken(&error)),
        },
    }
}
