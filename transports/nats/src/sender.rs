use std::{fmt, sync::Arc};

use async_nats::HeaderMap;
use bytes::Bytes;
use consign::{
    Message,
    message::EntityPath,
    transport::{Batch, BoxFuture, Capability, ErrorKind, SendError, Sender, Unsupported},
};

use crate::{
    Nats,
    connection::Inner,
    error::Fault,
    wire::{self, name},
};

/// Sends to a queue or a topic. A send ends when the server has acknowledged the message.
///
/// A batch is checked as a whole, and then goes message by message: the server has no transfer of several until 2.12. If
/// some of it is stored and some is not, the error is one of unknown outcome, and its source is the first refusal.
#[derive(Clone)]
pub struct NatsSender {
    target: Arc<Target>,
}

struct Target {
    inner: Arc<Inner>,
    path: EntityPath,
    stream: String,
    subject: String,
    by_session: bool,
    requires_session: bool,
    detects_duplicates: bool,
}

/// A message that was checked.
struct Ready {
    subject: String,
    headers: HeaderMap,
    payload: Bytes,
}

/// What is kept free of the largest message that a server takes: when it dies, it says why.
pub(crate) const ROOM_FOR_REASON: usize = 16 << 10;

impl Nats {
    /// A sender to a queue or a topic. Errors: [`EntityNotFound`](ErrorKind::EntityNotFound);
    /// [`InvalidOperation`](ErrorKind::InvalidOperation) for a subscription or a sub-queue, and those of the connection.
    pub async fn sender(&self, path: &str) -> Result<NatsSender, SendError> {
        let path = EntityPath::new(path)?;
        if path.is_sub_queue() || path.subscription().is_some() {
            let why = "nothing is sent to a subscription or a sub-queue";
            return Err(SendError::new(ErrorKind::InvalidOperation).with_detail(why));
        }
        let (stream, root, settings) = self.inner.find(&path).await?;
        let by_session = settings.requires_session;
        let target = Target {
            inner: Arc::clone(&self.inner),
            path,
            stream,
            subject: if by_session { format!("{root}.s") } else { format!("{root}.m") },
            by_session,
            requires_session: by_session,
            detects_duplicates: settings.detects_duplicates,
        };
        Ok(NatsSender { target: Arc::new(target) })
    }
}

impl NatsSender {
    /// Where it sends to.
    #[must_use]
    pub fn path(&self) -> &EntityPath {
        &self.target.path
    }
}

impl Target {
    fn check(&self, message: &Message) -> Result<Ready, SendError> {
        message.check()?;
        if message.time_to_live().is_some() {
            return Err(Unsupported::new(Capability::TimeToLive).into());
        }
        if message.scheduled_enqueue_time().is_some_and(|at| at > self.inner.now()) {
            return Err(Unsupported::new(Capability::Scheduling).into());
        }
        if let (Some(session), Some(key)) = (message.session_id(), message.partition_key())
            && session != key
        {
            return Err(SendError::new(ErrorKind::InvalidOperation).with_detail("the partition key is not the session"));
        }
        let subject = match message.session_id() {
            Some(id) if self.by_session => format!("{}.{}", self.subject, wire::token(id)),
            None if self.requires_session => {
                let why = "the queue takes only messages with a session";
                return Err(SendError::new(ErrorKind::InvalidOperation).with_detail(why));
            }
            _ => self.subject.clone(),
        };
        let (mut headers, payload) = wire::encode(message)?;
        if self.detects_duplicates
            && let Some(id) = headers.get(name::MESSAGE_ID).cloned()
        {
            headers.insert(async_nats::header::NATS_MESSAGE_ID, id);
        }
        let max = self.inner.client.max_payload();
        let reserve = ROOM_FOR_REASON.min(max / 8);
        if wire::size(&headers) + payload.len() > max.saturating_sub(reserve) {
            let why = format!("the server takes {max} bytes, of which {reserve} are kept for a dead letter's reason");
            return Err(SendError::new(ErrorKind::MessageSizeExceeded).with_detail(why));
        }
        Ok(Ready { subject, headers, payload })
    }

    async fn publish(&self, ready: Ready) -> Result<(), SendError> {
        match self.inner.publish(&ready.subject, ready.headers, ready.payload).await {
            Err(fault) if fault.is_no_responders() => Err(self.why_nobody_answers().await.into()),
            published => Ok(published.map(drop)?),
        }
    }

    /// Either the stream is gone, or no server leads it yet: while one starts, or a cluster elects.
    async fn why_nobody_answers(&self) -> Fault {
        let subject = format!("STREAM.INFO.{}", self.stream);
        match self.inner.request::<serde_json::Value>(&subject, &serde_json::json!({})).await {
            Err(fault) if fault.is_gone() => fault,
            _ => Fault::new(ErrorKind::ServiceBusy, "JetStream does not answer yet, and has not stored it"),
        }
    }

    /// Several messages, written in their order.
    async fn publish_all(&self, all: Vec<Ready>) -> Result<(), SendError> {
        let sent = Inner::in_order(all.into_iter().map(|ready| self.publish(ready))).await;
        let is_in_part = sent.iter().any(Result::is_ok);
        let mut errors = sent.into_iter().filter_map(Result::err);
        let Some(first) = errors.next() else { return Ok(()) };
        if first.is_outcome_unknown() {
            return Err(first);
        }
        if is_in_part || errors.any(|error| error.is_outcome_unknown()) {
            let is_retryable = first.is_retryable();
            let error = SendError::new(ErrorKind::General).with_detail("a part of the batch is stored");
            return Err(error.with_retryable(is_retryable).with_source(first));
        }
        Err(first)
    }
}

impl Sender for NatsSender {
    type Send = BoxFuture<Result<(), SendError>>;

    fn send(&self, message: Message) -> Self::Send {
        let ready = self.target.check(&message);
        let target = Arc::clone(&self.target);
        Box::pin(async move { target.publish(ready?).await })
    }

    fn send_batch(&self, batch: Batch) -> Self::Send {
        let ready: Result<Vec<_>, _> = batch.0.iter().map(|message| self.target.check(message)).collect();
        let target = Arc::clone(&self.target);
        Box::pin(async move { target.publish_all(ready?).await })
    }
}

impl fmt::Debug for NatsSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsSender").field("path", self.path()).finish_non_exhaustive()
    }
}
