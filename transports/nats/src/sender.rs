use std::{fmt, sync::Arc};

use async_nats::HeaderMap;
use bytes::Bytes;
use consign_core::{
    Message,
    message::EntityPath,
    settlement::DeadLetter,
    transport::{Batch, BoxFuture, Capabilities, Capability, ErrorKind, SendError, Sender, Unsupported},
};

use crate::{
    Nats,
    connection::Inner,
    dead_letter::ROOM_FOR_REASON,
    error::Fault,
    reply,
    reply_subjects::{self, Inbox},
    wire,
};

/// Sends to a queue or a topic. A send ends when the server has acknowledged the message.
///
/// A batch is checked as a whole, and then sent message by message: the server has no transfer of several until 2.12. If only a
/// part of it is stored, the error is one of unknown outcome, and its source is the first refusal.
#[derive(Clone)]
pub struct NatsSender {
    target: Arc<Target>,
}

struct Target {
    inner: Arc<Inner>,
    path: EntityPath,
    stream: String,
    subject: String,
    requires_session: bool,
    detects_duplicates: bool,
    /// Whether the target is a subject of core NATS, and not of a stream.
    is_core: bool,
    /// Where the replies to requests arrive that are sent here.
    replies: Option<Inbox>,
}

/// A message that was checked.
struct Ready {
    subject: String,
    /// The reply subject of a request of core NATS.
    reply: Option<String>,
    headers: HeaderMap,
    payload: Bytes,
}

impl Nats {
    /// Creates a sender to a queue or a topic, or to the reply subject of a request of core NATS, which its ReplyTo names as a
    /// path: `_INBOX/...`, or for a subject with another prefix one that a [`NatsSubscription`](crate::NatsSubscription) of this
    /// process has made. A reply goes there at most once, without a confirmation that it was received.
    ///
    /// # Errors
    ///
    /// [`EntityNotFound`](ErrorKind::EntityNotFound); [`InvalidOperation`](ErrorKind::InvalidOperation) for a subscription or a
    /// sub-queue, and those of the connection.
    pub async fn sender(&self, path: &str) -> Result<NatsSender, SendError> {
        let path = EntityPath::new(path)?;
        if path.is_sub_queue() || path.subscription().is_some() {
            let why = "nothing is sent to a subscription or a sub-queue";
            return Err(SendError::new(ErrorKind::InvalidOperation).with_detail(why));
        }
        if let Some(subject) = reply::subject(path.as_str()) {
            let inner = Arc::clone(&self.inner);
            return Ok(NatsSender::to_subject(inner, path, subject, None));
        }
        let (stream, root, settings) = self.inner.find(&path).await?;
        let requires_session = settings.requires_session;
        let target = Target {
            inner: Arc::clone(&self.inner),
            path,
            stream,
            subject: if requires_session { format!("{root}.s") } else { format!("{root}.m") },
            requires_session,
            detects_duplicates: settings.detects_duplicates,
            is_core: false,
            replies: None,
        };
        Ok(NatsSender { target: Arc::new(target) })
    }
}

impl NatsSender {
    /// Creates a sender to a subject of core NATS.
    pub(crate) fn to_subject(inner: Arc<Inner>, path: EntityPath, subject: String, replies: Option<Inbox>) -> Self {
        Self { target: Arc::new(Target::of_core(inner, path, subject, replies)) }
    }

    /// Returns the path of the target.
    #[must_use]
    pub fn path(&self) -> &EntityPath {
        &self.target.path
    }
}

impl Target {
    fn of_core(inner: Arc<Inner>, path: EntityPath, subject: String, replies: Option<Inbox>) -> Self {
        Self {
            inner,
            path,
            stream: String::new(),
            subject,
            requires_session: false,
            detects_duplicates: false,
            is_core: true,
            replies,
        }
    }

    fn check(&self, mut message: Message) -> Result<Ready, SendError> {
        DeadLetter::remove_from(&mut message);
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
            Some(id) if self.requires_session => format!("{}.{}", self.subject, wire::token(id)),
            None if self.requires_session => return Err(SendError::session_required()),
            _ => self.subject.clone(),
        };
        let reply = self.replies.as_ref().and_then(|replies| replies.take_reply_to(&mut message));
        if message.reply_to().is_some_and(reply_subjects::is_for_subjects_only) {
            let why = "an inbox without the prefix _INBOX receives replies to its own senders to subjects only";
            return Err(SendError::new(ErrorKind::NotSupported).with_detail(why));
        }
        let (mut headers, payload) = wire::encode(&message)?;
        if self.is_core {
            wire::write_service_error(&message, &mut headers);
        }
        if self.detects_duplicates
            && let Some(id) = message.message_id()
        {
            headers.insert(async_nats::header::NATS_MESSAGE_ID, &*wire::plain_id(id));
        }
        let max = self.inner.client.max_payload();
        // Core NATS has no dead letters.
        let reserve = if self.is_core { 0 } else { ROOM_FOR_REASON.min(max / 8) };
        if wire::size(&headers) + payload.len() > max.saturating_sub(reserve) {
            let why = format!("the server takes {max} bytes, of which {reserve} are kept for a dead letter's reason");
            return Err(SendError::new(ErrorKind::MessageSizeExceeded).with_detail(why));
        }
        Ok(Ready { subject, reply, headers, payload })
    }

    async fn publish(&self, ready: Ready) -> Result<(), SendError> {
        if self.is_core {
            return self.publish_core(ready).await;
        }
        match self.inner.publish(&ready.subject, ready.headers, ready.payload).await {
            Err(fault) if fault.is_no_responders() => Err(self.why_no_answer().await.into()),
            published => Ok(published.map(drop)?),
        }
    }

    /// Publishes without a stream. Core NATS has no acknowledgement: the message is written to the connection, and whether it is
    /// received is unknown.
    async fn publish_core(&self, ready: Ready) -> Result<(), SendError> {
        if self.inner.is_closed() {
            return Err(Fault::closed().into());
        }
        let client = &self.inner.client;
        let Ready { subject, reply, headers, payload } = ready;
        let sent = async {
            let published = match reply {
                Some(reply) => client.publish_with_reply_and_headers(subject, reply, headers, payload).await,
                None => client.publish_with_headers(subject, headers, payload).await,
            };
            published.map_err(|error| Fault::broken(&error))?;
            client.flush().await.map_err(|error| Fault::broken(&error))
        };
        // The client keeps what it has been given until it is connected again.
        let in_time = tokio::time::timeout(self.inner.timeout, sent).await;
        Ok(in_time.map_err(|_| Fault::timed_out("a write to the connection"))??)
    }

    /// Returns why there was no answer: either the stream is missing, or no server leads it yet, while one starts or a cluster
    /// elects.
    async fn why_no_answer(&self) -> Fault {
        let subject = format!("STREAM.INFO.{}", self.stream);
        match self.inner.request::<serde_json::Value>(&subject, &serde_json::json!({})).await {
            Err(fault) if fault.is_gone() => fault,
            _ => Fault::new(ErrorKind::ServiceBusy, "JetStream does not answer yet, and has not stored it"),
        }
    }

    /// Publishes several messages, written in their order.
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
        let ready = self.target.check(message);
        let target = Arc::clone(&self.target);
        Box::pin(async move { target.publish(ready?).await })
    }

    fn send_batch(&self, batch: Batch) -> Self::Send {
        let ready: Result<Vec<_>, _> =
            batch.into_messages().into_iter().map(|message| self.target.check(message)).collect();
        let target = Arc::clone(&self.target);
        Box::pin(async move { target.publish_all(ready?).await })
    }

    fn capabilities(&self) -> Capabilities {
        crate::Nats::CAPABILITIES
    }
}

impl fmt::Debug for NatsSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsSender").field("path", self.path()).finish_non_exhaustive()
    }
}
