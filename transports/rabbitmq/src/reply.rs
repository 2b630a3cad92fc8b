//! Direct reply-to: replies that go through no queue. RabbitMQ: Direct Reply-to.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use consign_core::{
    message::{Received, SequenceNumber},
    transport::{self, Capabilities, Delivery, ReceiveError, ReplySource, SendError},
};
use futures_util::Stream;
use lapin::Consumer;
use parking_lot::Mutex;

use crate::{
    RabbitMq, RabbitMqLease, RabbitMqSender, error::Failure, log, publisher::Publisher, reply_to::QUEUE, wire,
};

/// The replies to the requests of one [`RabbitMqSender`], straight from the broker's memory: at most once, and only while their
/// connection lives. A [`ReplySource`] for `consign::rpc`.
pub struct DirectReplies {
    /// The sender's channel has a consumer of its own with each new connection.
    newest: Arc<Newest>,
    current: Option<Consumer>,
}

impl std::fmt::Debug for DirectReplies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DirectReplies").finish_non_exhaustive()
    }
}

impl RabbitMq {
    /// Creates a sender of requests and the source of their replies on one channel, because RabbitMQ routes a reply by the
    /// channel of its request. Only requests of this sender are answered here. Where replies must outlive a connection, use a
    /// queue.
    ///
    /// At the responder [`sender`](Self::sender) takes the `ReplyTo` of such a request.
    ///
    /// Requests may be signed and encrypted. The text that RabbitMQ appends to their `ReplyTo` is not authenticated: the page
    /// of `consign::middleware::signing` has the consequences.
    ///
    /// # Errors
    ///
    /// Those of [`sender`](Self::sender).
    pub fn direct_replies(&self, path: &str) -> Result<(RabbitMqSender, DirectReplies), SendError> {
        let newest = Arc::<Newest>::default();
        let publisher = Publisher::spawn_with(Arc::clone(&self.0.link), Some(Arc::clone(&newest)));
        let sender = self.sender_by(path, publisher)?;
        Ok((sender, DirectReplies { newest, current: None }))
    }
}

/// The consumer of the newest channel, until it is taken. Those before are of channels that have ended.
#[derive(Default)]
pub(crate) struct Newest(Mutex<(Option<Consumer>, Option<Waker>)>);

impl Newest {
    pub(crate) fn put(&self, consumer: Consumer) {
        let mut slot = self.0.lock();
        let before = slot.0.replace(consumer);
        let waker = slot.1.take();
        drop(slot);
        drop(before);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn take(&self, cx: &mut Context<'_>) -> Option<Consumer> {
        let mut slot = self.0.lock();
        if slot.1.as_ref().is_none_or(|waker| !waker.will_wake(cx.waker())) {
            slot.1 = Some(cx.waker().clone());
        }
        slot.0.take()
    }
}

impl transport::Receiver for DirectReplies {
    type Lease = RabbitMqLease;

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<RabbitMqLease>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        let before = out.len();
        loop {
            if let Some(consumer) = self.newest.take(cx) {
                self.current = Some(consumer);
            }
            let Some(current) = &mut self.current else { return Poll::Pending };
            match Pin::new(current).poll_next(cx) {
                Poll::Ready(Some(Ok(reply))) => {
                    let (message, facts) = wire::read(&reply.properties, Bytes::from(reply.data), |malformed| {
                        log::malformed(QUEUE, &malformed);
                    });
                    let received = Received::new(SequenceNumber::new(facts.number), facts.enqueued, 1);
                    out.push(Delivery { message: message.with_received(received), lease: RabbitMqLease::reply() });
                    if out.len() - before == max.max(1) {
                        return Poll::Ready(Ok(out.len() - before));
                    }
                }
                Poll::Ready(Some(Err(error))) if out.len() == before => {
                    self.current = None;
                    return Poll::Ready(Err(Failure::from(error).into()));
                }
                Poll::Ready(_) => self.current = None,
                Poll::Pending if out.len() > before => return Poll::Ready(Ok(out.len() - before)),
                Poll::Pending => return Poll::Pending,
            }
            if self.current.is_none() && out.len() > before {
                return Poll::Ready(Ok(out.len() - before));
            }
        }
    }

    fn capabilities(&self) -> Capabilities {
        RabbitMq::CAPABILITIES
    }

    fn entity_info(&self) -> transport::EntityInfo {
        transport::EntityInfo::new("amq.rabbitmq.reply-to")
    }
}

impl ReplySource for DirectReplies {
    fn address(&self) -> &str {
        QUEUE
    }

    fn session_id(&self) -> Option<&str> {
        None
    }

    fn is_exclusive(&self) -> bool {
        true
    }
}
