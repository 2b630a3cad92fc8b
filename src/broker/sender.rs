use std::{
    fmt,
    future::{Ready, ready},
    sync::Arc,
};

use super::{
    Acknowledged, Broker, EntityKind,
    engine::{Engine, Now, StoreId, arrival},
    namespace::Namespace,
    rejection::rejection,
};
use crate::{
    Message,
    message::{EntityPath, SequenceNumber},
    time::Timestamp,
    transport::{Batch, Capabilities, PresettledSender, SendError, Sender},
};

/// Sends to a queue or a topic of the embedded broker. A send has happened when the call returns; its future is ready when
/// it is as safe as the broker makes it, which in memory is at once.
///
/// Refusals: [`InvalidArgument`](crate::transport::ErrorKind::InvalidArgument) names the field,
/// [`MessageSizeExceeded`](crate::transport::ErrorKind::MessageSizeExceeded) the limit,
/// [`QuotaExceeded`](crate::transport::ErrorKind::QuotaExceeded) says that the entity is full or remembers as many ids as it
/// may, [`InvalidOperation`](crate::transport::ErrorKind::InvalidOperation) that the entity requires sessions and the
/// message has none, or that a batch for a partitioned entity has several keys,
/// [`EntityDisabled`](crate::transport::ErrorKind::EntityDisabled) and
/// [`EntityNotFound`](crate::transport::ErrorKind::EntityNotFound).
#[derive(Clone)]
pub struct QueueSender {
    pub(super) namespace: Arc<Namespace>,
    pub(super) store: StoreId,
    pub(super) path: EntityPath,
    kind: EntityKind,
    /// The entity that hands its messages over in a transaction.
    pub(super) via: Option<(Arc<Namespace>, StoreId)>,
}

impl QueueSender {
    /// Most bytes of a batch of several messages, bodies and properties, however large one message may be.
    pub const MAX_BATCH: usize = 1 << 20;

    pub(super) fn new(namespace: Arc<Namespace>, store: StoreId, path: EntityPath, kind: EntityKind) -> Self {
        Self { namespace, store, path, kind, via: None }
    }

    #[inline]
    fn with<T>(&self, command: impl FnOnce(&mut Engine, Now) -> Result<T, SendError>) -> Acknowledged<T, SendError> {
        if let Err(failure) = self.namespace.check_open() {
            return Acknowledged::ready(Err(failure));
        }
        let now = self.namespace.now();
        let answer = self.namespace.with(|state| command(&mut state.engine, now));
        self.namespace.acknowledge(answer.map_err(|error| self.rejection(error, now.utc)))
    }

    /// A refusal of this sender, with what the broker says of each.
    #[cold]
    pub(super) fn rejection(&self, error: SendError, at: Timestamp) -> SendError {
        rejection(error, self.kind.name(), &self.path, at)
    }

    /// The path of the entity.
    #[must_use]
    pub fn path(&self) -> &EntityPath {
        &self.path
    }

    /// The same sender for a transaction that is about another entity: that entity hands the messages over. Outside of a
    /// transaction it makes no difference.
    #[must_use]
    pub fn via(&self, entity: &super::Queue) -> Self {
        Self { via: Some((Arc::clone(&entity.namespace), entity.store)), ..self.clone() }
    }

    /// As [`QueueSender::via`], for a transaction that is about a topic, as one is that receives from a subscription.
    #[must_use]
    pub fn via_topic(&self, entity: &super::Topic) -> Self {
        Self { via: Some((Arc::clone(&entity.namespace), entity.store)), ..self.clone() }
    }

    /// Sends messages that cannot be received before `at`; if that has passed they are sent as any other. All are accepted,
    /// or none. Answers with their sequence numbers, in order, by which [`Queue::cancel_scheduled`](super::Queue) takes
    /// them back until they become active with new numbers. A duplicate answers with the number of the scheduled message
    /// that it repeats, or with 0 if that is none any more. Refusals are those of a send.
    pub fn schedule(&self, messages: Vec<Message>, at: Timestamp) -> Acknowledged<Vec<SequenceNumber>, SendError> {
        let arrivals = messages.into_iter().map(|message| arrival(message, Some(at))).collect();
        self.with(|engine, now| engine.send_all(now, self.store, arrivals, false))
    }

    /// Takes scheduled messages back: all of them, or none. Errors:
    /// [`MessageNotFound`](crate::transport::ErrorKind::MessageNotFound) if one of them is not scheduled here, because it
    /// has become active or was cancelled.
    pub fn cancel_scheduled(&self, numbers: &[SequenceNumber]) -> Acknowledged<(), SendError> {
        self.with(|engine, now| engine.cancel(now, self.store, numbers))
    }
}

impl Sender for QueueSender {
    type Send = Acknowledged<(), SendError>;

    #[inline]
    fn send(&self, message: Message) -> Self::Send {
        let arrival = arrival(message, None);
        self.with(|engine, now| engine.send(now, self.store, arrival))
    }

    fn send_batch(&self, batch: Batch) -> Self::Send {
        let arrivals = batch.0.into_iter().map(|message| arrival(message, None)).collect();
        self.with(|engine, now| engine.send_all(now, self.store, arrivals, true)).map(drop)
    }

    fn capabilities(&self) -> Capabilities {
        Broker::CAPABILITIES
    }
}

impl PresettledSender for QueueSender {
    type HandOver = Ready<()>;

    fn send_presettled(&self, message: Message) -> Self::HandOver {
        let (arrival, now) = (arrival(message, None), self.namespace.now());
        // Nobody asks what became of it.
        if self.namespace.check_open::<SendError>().is_ok() {
            let _ = self.namespace.with(|state| state.engine.send(now, self.store, arrival));
        }
        ready(())
    }
}

impl fmt::Debug for QueueSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueueSender").field("path", &self.path).finish_non_exhaustive()
    }
}
