use std::{
    fmt,
    future::{Ready, ready},
    sync::Arc,
};

use consign_core::{
    Message,
    administration::EntityKind,
    message::{EntityPath, SequenceNumber},
    time::{Clock, Timestamp},
    transport::{Batch, Capabilities, PresettledSender, SendError, Sender},
};

use super::{
    Acknowledged, Broker,
    engine::{Arrival, Engine, MAX_BATCH, Now, StoreId, arrival},
    rejection::rejection,
    shared::Shared,
};

/// Sends to a queue or a topic of the embedded broker. A send has happened when the call returns. Its future is ready
/// when the message is as safe as the broker makes it, which in memory is at once.
///
/// Errors: [`InvalidArgument`](consign_core::transport::ErrorKind::InvalidArgument), which names the field.
/// [`MessageSizeExceeded`](consign_core::transport::ErrorKind::MessageSizeExceeded), which names the limit.
/// [`QuotaExceeded`](consign_core::transport::ErrorKind::QuotaExceeded) if the entity is full or remembers as many ids as it
/// may. [`InvalidOperation`](consign_core::transport::ErrorKind::InvalidOperation) if the entity requires sessions and the
/// message has none, or a batch for a partitioned entity has several keys.
/// [`EntityDisabled`](consign_core::transport::ErrorKind::EntityDisabled) and
/// [`EntityNotFound`](consign_core::transport::ErrorKind::EntityNotFound).
#[derive(Clone)]
pub struct QueueSender {
    pub(super) shared: Arc<Shared>,
    pub(super) store: StoreId,
    pub(super) path: EntityPath,
    kind: EntityKind,
    /// The entity that transfers its messages in a transaction.
    pub(super) via: Option<(Arc<Shared>, StoreId)>,
}

impl QueueSender {
    /// The maximum size in bytes of a batch of several messages, bodies and properties, however large one message may
    /// be.
    pub const MAX_BATCH: usize = MAX_BATCH;

    pub(super) fn new(shared: Arc<Shared>, store: StoreId, path: EntityPath, kind: EntityKind) -> Self {
        Self { shared, store, path, kind, via: None }
    }

    #[inline]
    fn with<T>(&self, command: impl FnOnce(&mut Engine, Now) -> Result<T, SendError>) -> Acknowledged<T, SendError> {
        if let Err(failure) = self.shared.check_open() {
            return Acknowledged::ready(Err(failure));
        }
        let now = self.shared.now();
        let answer = self.shared.with_answer(|state| command(&mut state.engine, now));
        self.shared.acknowledge(answer.map_err(|error| self.rejection(error, now.utc)))
    }

    /// Sends a message, or passes it to the receiver in this process that expects it.
    fn send_directly(&self, arrival: Arrival) -> Acknowledged<(), SendError> {
        if let Err(failure) = self.shared.check_open() {
            return Acknowledged::ready(Err(failure));
        }
        let now = self.shared.now();
        let sent = self.shared.send_directly(now, self.store, arrival);
        self.shared.acknowledge(sent.map_err(|error| self.rejection(error, now.utc)))
    }

    /// Returns a refusal of this sender, with the fields that the broker adds to each.
    #[cold]
    pub(super) fn rejection(&self, error: SendError, at: Timestamp) -> SendError {
        rejection(error, self.kind.name(), &self.path, at)
    }

    /// Returns the path of the entity.
    #[must_use]
    pub fn path(&self) -> &EntityPath {
        &self.path
    }

    /// Returns this sender for a transaction on another entity, which then transfers the messages. Outside of a
    /// transaction it makes no difference.
    #[must_use]
    pub fn via(&self, entity: &super::Queue) -> Self {
        Self { via: Some((Arc::clone(&entity.shared), entity.store)), ..self.clone() }
    }

    /// Does the same as [`QueueSender::via`] for a transaction on a topic, such as one that receives from a
    /// subscription.
    #[must_use]
    pub fn via_topic(&self, entity: &super::Topic) -> Self {
        Self { via: Some((Arc::clone(&entity.shared), entity.store)), ..self.clone() }
    }

    /// Sends messages that cannot be received before `at`; if that has passed they are sent as any other. All are
    /// accepted, or none.
    ///
    /// Returns their sequence numbers, in order. [`Queue::cancel_scheduled`](super::Queue) cancels by these, until
    /// the messages become active with new numbers. A duplicate returns the number of the scheduled message that it
    /// repeats, or 0 if that message is no longer scheduled. Errors are those of a send.
    pub fn schedule(&self, messages: Vec<Message>, at: Timestamp) -> Acknowledged<Vec<SequenceNumber>, SendError> {
        self.schedule_each(messages.into_iter().map(|message| (message, at)).collect())
    }

    /// Sends messages as [`QueueSender::schedule`] does, each with a time of its own. All are accepted, or none.
    pub fn schedule_each(&self, messages: Vec<(Message, Timestamp)>) -> Acknowledged<Vec<SequenceNumber>, SendError> {
        let arrivals = messages.into_iter().map(|(message, at)| arrival(message, Some(at))).collect();
        self.with(|engine, now| engine.send_all(now, self.store, arrivals, false))
    }

    /// Cancels scheduled messages: all of them, or none. Errors:
    /// [`MessageNotFound`](consign_core::transport::ErrorKind::MessageNotFound) if one of them is not scheduled here,
    /// because it has become active or was cancelled.
    pub fn cancel_scheduled(&self, numbers: &[SequenceNumber]) -> Acknowledged<(), SendError> {
        self.with(|engine, now| engine.cancel(now, self.store, numbers))
    }
}

impl Sender for QueueSender {
    type Send = Acknowledged<(), SendError>;

    #[inline]
    fn send(&self, message: Message) -> Self::Send {
        let arrival = arrival(message, None);
        if self.shared.has_direct() {
            return self.send_directly(arrival);
        }
        self.with(|engine, now| engine.send(now, self.store, arrival))
    }

    fn send_batch(&self, batch: Batch) -> Self::Send {
        let arrivals = batch.into_messages().into_iter().map(|message| arrival(message, None)).collect();
        self.with(|engine, now| engine.send_all(now, self.store, arrivals, true)).map(drop)
    }

    fn capabilities(&self) -> Capabilities {
        Broker { shared: Arc::clone(&self.shared) }.capabilities()
    }

    fn clock(&self) -> Option<Arc<dyn Clock>> {
        Some(self.shared.user_clock())
    }
}

impl PresettledSender for QueueSender {
    type HandOver = Ready<()>;

    fn send_presettled(&self, message: Message) -> Self::HandOver {
        let (arrival, now) = (arrival(message, None), self.shared.now());
        // No caller reads its outcome.
        if self.shared.check_open::<SendError>().is_ok() {
            let _ = self.shared.with(|state| state.engine.send(now, self.store, arrival));
        }
        ready(())
    }
}

impl fmt::Debug for QueueSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueueSender").field("path", &self.path).finish_non_exhaustive()
    }
}
