use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use async_nats::{
    Subscriber,
    jetstream::consumer::{AckPolicy, PullConsumer},
};
use consign_core::{
    Message,
    message::{Properties, Received, SequenceNumber},
    settlement::DeadLetter,
    time::Timestamp,
    transport::{Capabilities, Delivery, ErrorKind, ManageError, ReceiveError, Receiver, Sender as _},
};
use futures_util::Stream;

use crate::{
    Nats, NatsLease, NatsReceiver,
    beside::Beside,
    deferred,
    entities::{GRACE, dead},
    jobs::Job,
    log,
    read::{self, Origin},
    reply,
    request_limits::RequestLimits,
    settings::{Kind, Stored},
    source::{Place, Source},
    wire,
};

/// A source of messages: a pull consumer of a stream that this transport has not created.
///
/// Its lock duration is its ack-wait, less a quarter of a second. After one delivery less than its `max_deliver` a
/// message is dead-lettered: the server never delivers it again after the last one, so that one is for the dead letter alone.
/// Without `max_deliver` there is no maximum. Receives keep to its `max_batch` and `max_expires`.
///
/// The Subject of a message without one is the subject that it was published to, by which a router selects its handler. A dead
/// letter and a deferred message keep it.
pub struct WrappedConsumer {
    source: Arc<Source>,
}

impl Nats {
    /// Wraps an existing pull consumer. For dead letters, deferred messages and other records a stream is created beside its
    /// own, unless it exists. If the consumer's stream is deleted and created again, dead letters of the previous one stay
    /// there, and its deferred messages are not found.
    ///
    /// # Errors
    ///
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) if messages are not acknowledged one by one or have no payload
    /// (`headers_only`), the ack-wait or `max_expires` is shorter than a second, or `max_deliver` is 1; those of the connection.
    pub async fn wrap_consumer(&self, consumer: &PullConsumer) -> Result<WrappedConsumer, ManageError> {
        let info = consumer.cached_info();
        let config = &info.config;
        let refused = |why| ManageError::new(ErrorKind::InvalidArgument).with_detail(why);
        if config.ack_policy != AckPolicy::Explicit {
            return Err(refused("the consumer must acknowledge explicitly"));
        }
        if config.headers_only {
            return Err(refused("the consumer must deliver payloads: it has headers_only"));
        }
        let request_limits = RequestLimits::of(config.max_batch, config.max_expires);
        if request_limits.lasts < std::time::Duration::from_secs(1) {
            return Err(refused("max_expires must be at least 1 s"));
        }
        let lock = config.ack_wait.checked_sub(GRACE).filter(|lock| *lock + GRACE >= std::time::Duration::from_secs(1));
        let lock = lock.ok_or_else(|| refused("the ack-wait must be at least 1 s"))?;
        let path = format!("{}/{}", info.stream_name, info.name);
        let (stream, root) = self.inner.name(&path)?;
        let maximum = u32::try_from(config.max_deliver).ok().filter(|max| *max > 0);
        if maximum == Some(1) {
            return Err(refused("max_deliver must be at least 2: the last delivery is for the dead letter"));
        }
        let mut settings = Stored::new(Kind::Queue, &path, lock, maximum.unwrap_or(u32::MAX), false);
        settings.id.clone_from(&path);
        let created = self.inner.created(&info.stream_name).await?;
        let beside = Beside::of_incarnation(&stream, &root, &created);
        // With the same settings it may exist.
        self.inner.create_beside(&beside, &settings, 1).await?;
        settings.max_delivery_count = maximum.map_or(u32::MAX, |max| max - 1);
        let source = Source {
            inner: Arc::clone(&self.inner),
            settings,
            stream: info.stream_name.clone(),
            consumer: info.name.clone(),
            subjects: String::from(">"),
            beside,
            place: Place::Main,
            fan_out: None,
            is_wrapped: true,
            request_limits,
        };
        Ok(WrappedConsumer { source: Arc::new(source) })
    }

    /// Wraps an existing subscription. The server has dropped each message when it arrives, so there is nothing to settle.
    /// `sequence_number` counts from 1.
    #[must_use]
    pub fn wrap_subscription(&self, subscriber: Subscriber) -> NatsSubscription {
        NatsSubscription { nats: self.clone(), subscriber, received: 0 }
    }
}

impl WrappedConsumer {
    /// Creates a receiver that locks messages.
    #[must_use]
    pub fn receiver(&self) -> NatsReceiver {
        NatsReceiver::new(Arc::clone(&self.source), false)
    }

    /// Creates a receiver of the dead letters.
    #[must_use]
    pub fn dead_letters(&self) -> NatsReceiver {
        NatsReceiver::new(dead(&self.source), false)
    }

    /// Receives deferred messages by their sequence numbers, as [`ReceiveDeferred`](consign_core::transport::ReceiveDeferred).
    pub async fn receive_deferred(&self, numbers: &[SequenceNumber]) -> Result<Vec<Delivery<NatsLease>>, ReceiveError> {
        deferred::receive_deferred(&self.source, numbers).await
    }

    /// Deletes the stream that was created beside the consumer's, with its dead letters and deferred messages.
    pub async fn unwrap(self) -> Result<(), ManageError> {
        Ok(self.source.inner.delete_stream(&self.source.beside.stream).await?)
    }
}

impl fmt::Debug for WrappedConsumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WrappedConsumer").field("consumer", &self.source.consumer).finish_non_exhaustive()
    }
}

/// A subscription of NATS: a receiver of messages that were removed when they were received.
///
/// The Subject of a message without one is the subject that it was published to, by which a router selects its handler.
/// The reply subject of a request is its ReplyTo, as a path that [`Nats::sender`] takes, and its CorrelationId if it has
/// no id of its own. The subject has any prefix; but one that begins with `$` or is in the namespace of this transport is not
/// replied to. The path of one without `_INBOX.` is valid in this process only.
///
/// A request whose headers cannot be read, or exceed the limits of a message, is not received: the fault `InvalidRequest`, with
/// an empty body, is sent to its reply subject. Any other message is received: with headers that cannot be read as application
/// properties, and without the largest ones if they exceed the limits. Each is logged.
pub struct NatsSubscription {
    nats: Nats,
    subscriber: Subscriber,
    received: u64,
}

impl Receiver for NatsSubscription {
    type Lease = NatsLease;

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<NatsLease>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        let mut taken = 0;
        while taken < max.max(1) {
            match Pin::new(&mut self.subscriber).poll_next(cx) {
                Poll::Pending if taken == 0 => return Poll::Pending,
                Poll::Ready(None) if taken == 0 => {
                    let ended =
                        ReceiveError::new(ErrorKind::InvalidOperation).with_detail("the subscription has ended");
                    return Poll::Ready(Err(ended));
                }
                Poll::Pending | Poll::Ready(None) => break,
                Poll::Ready(Some(message)) => {
                    self.received += 1;
                    let now: Timestamp = self.nats.inner.now();
                    let subject = message.subject.as_str();
                    let headers = message.headers.as_ref();
                    let origin = Origin::Subject(subject);
                    let read = read::read(origin, headers, message.payload, self.received, now, subject);
                    let mut request = read.message;
                    let namespace = &self.nats.inner.namespace;
                    let reply_to = message.reply.as_deref().and_then(|reply| reply::path_of_request(reply, namespace));
                    if let Some(reply) = &message.reply {
                        is_answered_at(reply, reply_to.as_deref(), request.properties_mut());
                    }
                    if let Some(malformed) = read.malformed {
                        let why = malformed.why();
                        log::malformed(subject, &why, reply_to.is_some());
                        if let Some(reply_to) = reply_to {
                            self.refuse(subject, reply_to, &request, &why);
                            continue;
                        }
                    }
                    let received = Received::new(SequenceNumber::new(self.received), now, 1);
                    out.push(Delivery { message: request.with_received(received), lease: NatsLease::removed() });
                    taken += 1;
                }
            }
        }
        Poll::Ready(Ok(taken))
    }

    fn capabilities(&self) -> Capabilities {
        Nats::CAPABILITIES
    }
}

impl NatsSubscription {
    /// Answers a request by a fault at its reply subject, at most once as any reply there. The receiver does not wait for it.
    fn refuse(&self, subject: &str, reply_to: String, request: &Message, why: &DeadLetter) {
        const NOT_SENT: &str = "the fault of a request was not sent";
        let Some(place) = self.nats.inner.place() else {
            return log::failed(subject, NOT_SENT, &"too many settlements and faults are being sent");
        };
        let mut fault = wire::invalid_request(why);
        if let Some(id) = correlation(request) {
            fault.properties_mut().set_correlation_id(id.to_owned());
        }
        let (nats, subject) = (self.nats.clone(), subject.to_owned());
        place.send(Job::Settle(Box::pin(async move {
            let sent = async { nats.sender(&reply_to).await?.send(fault).await };
            if let Err(error) = sent.await {
                log::failed(&subject, NOT_SENT, &error);
            }
        })));
    }
}

/// Returns the id that identifies the reply of a request, as a responder does by default.
fn correlation(request: &Message) -> Option<&str> {
    let message_id = request.original_message_id().filter(|_| !request.is_message_id_stamped());
    message_id.or_else(|| request.correlation_id().filter(|id| !id.is_empty()))
}

/// Sets the reply address of a request of core NATS. Each request has its own reply subject, which also identifies it.
fn is_answered_at(reply: &str, path: Option<&str>, request: &mut Properties) {
    if request.reply_to().is_none() {
        request.set_reply_to(path.unwrap_or(reply).to_owned());
    }
    if request.correlation_id().is_none() && request.is_message_id_stamped() {
        request.set_correlation_id(reply.to_owned());
    }
}

impl fmt::Debug for NatsSubscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsSubscription").field("received", &self.received).finish_non_exhaustive()
    }
}
