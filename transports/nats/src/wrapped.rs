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
    message::{Properties, Received, SequenceNumber},
    time::Timestamp,
    transport::{Capabilities, Delivery, ErrorKind, ManageError, ReceiveError, Receiver},
};
use futures_util::Stream;

use crate::{
    Nats, NatsLease, NatsReceiver,
    beside::Beside,
    deferred,
    entities::{GRACE, dead},
    read::{self, Origin},
    reply,
    settings::{Kind, Stored},
    source::{Place, Source},
};

/// A source of messages: a pull consumer of a stream that this transport has not created.
///
/// Its lock duration is its ack-wait, less a quarter of a second. Its `max_deliver` is the number of deliveries after which a
/// message is dead-lettered; without one there is no maximum.
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
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) if messages are not acknowledged one by one, or the ack-wait is shorter
    /// than a second; those of the connection.
    pub async fn wrap_consumer(&self, consumer: &PullConsumer) -> Result<WrappedConsumer, ManageError> {
        let info = consumer.cached_info();
        let config = &info.config;
        let refused = |why| ManageError::new(ErrorKind::InvalidArgument).with_detail(why);
        if config.ack_policy != AckPolicy::Explicit {
            return Err(refused("the consumer must acknowledge explicitly"));
        }
        let lock = config.ack_wait.checked_sub(GRACE).filter(|lock| *lock + GRACE >= std::time::Duration::from_secs(1));
        let lock = lock.ok_or_else(|| refused("the ack-wait must be at least 1 s"))?;
        let path = format!("{}/{}", info.stream_name, info.name);
        let (stream, root) = self.inner.name(&path)?;
        let deliveries = u32::try_from(config.max_deliver).ok().filter(|max| *max > 0).unwrap_or(u32::MAX);
        let mut settings = Stored::new(Kind::Queue, &path, lock, deliveries, false);
        settings.id.clone_from(&path);
        let created = self.inner.created(&info.stream_name).await?;
        let beside = Beside::of_incarnation(&stream, &root, &created);
        // With the same settings it may exist.
        self.inner.create_beside(&beside, &settings, 1).await?;
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
/// no id of its own.
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
                    if let Some(reply) = &message.reply {
                        is_answered_at(reply, request.properties_mut());
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

/// Sets the reply address of a request of core NATS. Each request has its own reply subject, which also identifies it.
fn is_answered_at(reply: &str, request: &mut Properties) {
    if request.reply_to().is_none() {
        request.set_reply_to(reply::path(reply).unwrap_or_else(|| reply.to_owned()));
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
