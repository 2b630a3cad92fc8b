use std::{fmt, sync::Arc};

use consign_core::{
    Message,
    administration::{Counts, EntityKind, QueueSettings},
    message::{EntityPath, SequenceNumber},
    time::Timestamp,
    transport::{Delivery, EntityInfo, ErrorKind, Escaped, ManageError, ReceiveError, ReceiveMode, SendError},
};

use super::{
    Acknowledged, Ages, QueueReceiver, QueueSender, SessionAcceptor, SessionReceiver,
    engine::{Part, Source, StoreId},
    lease::QueueLease,
    shared::Shared,
};

/// A queue of the embedded broker, or the part of a subscription that is received from, or a sub-queue of either.
///
/// It is a handle. When the entity is deleted its calls return [`EntityNotFound`](ErrorKind::EntityNotFound) or
/// nothing, also if another entity of the same path is created.
#[derive(Clone)]
pub struct Queue {
    pub(super) shared: Arc<Shared>,
    pub(super) store: StoreId,
    pub(super) part: Part,
    /// The path of the entity, whatever the part.
    pub(super) entity: EntityPath,
}

impl Queue {
    /// The maximum number of messages that one call of [`Queue::delete_messages`] removes.
    pub const MAX_DELETED: usize = 4_000;

    /// Returns the path, with `/$deadletterqueue` or `/$Transfer/$deadletterqueue` on a sub-queue.
    #[must_use]
    pub fn path(&self) -> EntityPath {
        match self.part {
            Part::Main => self.entity.clone(),
            Part::DeadLetter => self.entity.dead_letter(),
            Part::TransferDeadLetter => self.entity.transfer_dead_letter(),
        }
    }

    /// Returns the dead-letter sub-queue. It exists as long as its queue. That of a topic, which is reached through
    /// [`Topic::transfer_dead_letter`](super::Topic::transfer_dead_letter) only, is always empty.
    #[must_use]
    pub fn dead_letter(&self) -> Self {
        Self { part: Part::DeadLetter, ..self.clone() }
    }

    /// Returns the sub-queue of messages that this entity could not transfer in a transaction.
    #[must_use]
    pub fn transfer_dead_letter(&self) -> Self {
        Self { part: Part::TransferDeadLetter, ..self.clone() }
    }

    /// Creates a sender. A sub-queue or a subscription accepts no sends: that is [`ErrorKind::InvalidOperation`].
    pub fn sender(&self) -> Result<QueueSender, SendError> {
        let refused = match self.part {
            Part::Main if self.entity.subscription().is_none() => {
                return Ok(QueueSender::new(
                    Arc::clone(&self.shared),
                    self.store,
                    self.entity.clone(),
                    EntityKind::Queue,
                ));
            }
            Part::Main => "a subscription gets messages from its topic only",
            Part::DeadLetter | Part::TransferDeadLetter => "sending to a dead-letter sub-queue is not allowed",
        };
        Err(SendError::new(ErrorKind::InvalidOperation).with_detail(refused))
    }

    /// Sends messages that cannot be received before `at`: [`QueueSender::schedule`].
    pub fn schedule(&self, messages: Vec<Message>, at: Timestamp) -> Acknowledged<Vec<SequenceNumber>, SendError> {
        match self.sender() {
            Ok(sender) => sender.schedule(messages, at),
            Err(refused) => Acknowledged::ready(Err(refused)),
        }
    }

    /// Cancels scheduled messages: [`QueueSender::cancel_scheduled`].
    pub fn cancel_scheduled(&self, numbers: &[SequenceNumber]) -> Acknowledged<(), SendError> {
        match self.sender() {
            Ok(sender) => sender.cancel_scheduled(numbers),
            Err(refused) => Acknowledged::ready(Err(refused)),
        }
    }

    /// Creates a receiver in peek-lock mode.
    #[must_use]
    pub fn receiver(&self) -> QueueReceiver {
        QueueReceiver::new(self.clone(), ReceiveMode::PeekLock)
    }

    /// Creates a receiver in receive-and-delete mode: a message is removed when it is delivered. A message that is not
    /// processed is lost.
    #[must_use]
    pub fn receive_and_delete(&self) -> QueueReceiver {
        QueueReceiver::new(self.clone(), ReceiveMode::ReceiveAndDelete)
    }

    /// Locks the session of this id, which may be empty so far. Errors:
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) for an id of more than 128 UTF-16 code units.
    /// [`SessionCannotBeLocked`](ErrorKind::SessionCannotBeLocked) while another receiver holds it.
    /// [`InvalidOperation`](ErrorKind::InvalidOperation) on an entity without sessions or a sub-queue, and those of a
    /// receive.
    pub fn accept_session(&self, id: &str) -> Result<SessionReceiver, ReceiveError> {
        self.session_acceptor()?.accept(id)
    }

    /// Creates an acceptor, which locks sessions one after the other: those that have a message and no holder.
    /// Errors: [`InvalidOperation`](ErrorKind::InvalidOperation) on a sub-queue.
    pub fn session_acceptor(&self) -> Result<SessionAcceptor, ReceiveError> {
        match self.part {
            Part::Main => Ok(SessionAcceptor::new(self.clone())),
            Part::DeadLetter | Part::TransferDeadLetter => {
                Err(ReceiveError::new(ErrorKind::InvalidOperation).with_detail("a sub-queue has no sessions"))
            }
        }
    }

    /// Returns the ids of the sessions that have a message or a state, in order. Visits every session once.
    #[must_use]
    pub fn sessions(&self) -> Vec<String> {
        let now = self.shared.now();
        self.shared.with(|state| state.engine.session_ids(now, self.store))
    }

    /// Returns the ids of the sessions that have a state that was set after `after`, in order. Visits every session
    /// once. A state in a store that has no such time counts as set in 1970.
    #[must_use]
    pub fn sessions_updated_after(&self, after: Timestamp) -> Vec<String> {
        let now = self.shared.now();
        self.shared.with(|state| state.engine.session_ids_updated_after(now, self.store, after))
    }

    /// Locks deferred messages by their sequence numbers. Errors: [`MessageNotFound`](ErrorKind::MessageNotFound) if
    /// one of them is not deferred here, or has expired; then none is locked. Also those of a receive.
    /// [`SessionReceiver::receive_deferred`] fetches messages of a session.
    pub fn receive_deferred(&self, numbers: &[SequenceNumber]) -> Result<Vec<Delivery<QueueLease>>, ReceiveError> {
        self.receive_deferred_within(numbers, u64::MAX)
    }

    /// Locks deferred messages as [`Queue::receive_deferred`] does, if several of them have at most `max_bytes` together: bodies,
    /// properties and [`QueueSettings::OVERHEAD`] for each. One message may have any size. Errors:
    /// [`MessageSizeExceeded`](ErrorKind::MessageSizeExceeded) for more; then none is locked.
    pub fn receive_deferred_within(
        &self,
        numbers: &[SequenceNumber],
        max_bytes: u64,
    ) -> Result<Vec<Delivery<QueueLease>>, ReceiveError> {
        self.receive_deferred_from(Source::Part(self.part), numbers, max_bytes)
    }

    pub(super) fn receive_deferred_from(
        &self,
        source: Source,
        numbers: &[SequenceNumber],
        max_bytes: u64,
    ) -> Result<Vec<Delivery<QueueLease>>, ReceiveError> {
        let Self { shared, store, .. } = self;
        shared.check_open::<ReceiveError>()?;
        let now = shared.now();
        let locked = shared.with(|state| state.engine.receive_deferred(now, *store, source, numbers, max_bytes));
        let locked = locked.map_err(|error| self.refusal(error))?;
        Ok(locked.into_iter().map(|locked| QueueLease::deliver(shared, *store, source, locked)).collect())
    }

    /// Returns up to `max` messages from sequence number `from` on, in order, without locking or counting. Locked,
    /// deferred and scheduled messages are included, dead-lettered ones are not. The list may be empty.
    ///
    /// Visits the messages that it returns and, unless the entity is partitioned or has sessions, every locked one.
    #[must_use]
    pub fn peek(&self, from: SequenceNumber, max: usize) -> Vec<Message> {
        self.peek_within(from, max, usize::MAX)
    }

    /// Returns messages as [`Queue::peek`] does, up to the one with which they have `max_bytes` of bodies and properties. Messages
    /// behind it are not read from a disk.
    #[must_use]
    pub fn peek_within(&self, from: SequenceNumber, max: usize, max_bytes: usize) -> Vec<Message> {
        self.shared.peek(self.store, Source::Part(self.part), from, max, max_bytes)
    }

    /// Removes up to `max` messages, at most [`Queue::MAX_DELETED`], that are neither locked nor scheduled, the
    /// oldest first. With a time, removes only those enqueued before it. Returns their number. Visits every locked and
    /// scheduled message once at most. Errors: [`InvalidOperation`](ErrorKind::InvalidOperation) on a partitioned
    /// entity, [`EntityNotFound`](ErrorKind::EntityNotFound).
    pub fn delete_messages(&self, max: usize, enqueued_before: Option<Timestamp>) -> Acknowledged<usize, ManageError> {
        self.delete_from(Source::Part(self.part), max, enqueued_before)
    }

    pub(super) fn delete_from(
        &self,
        source: Source,
        max: usize,
        enqueued_before: Option<Timestamp>,
    ) -> Acknowledged<usize, ManageError> {
        match self.settings() {
            Ok(settings) if !settings.partitioned => {}
            Ok(_) => {
                let refused = ManageError::new(ErrorKind::InvalidOperation).with_detail("the entity is partitioned");
                return Acknowledged::ready(Err(refused));
            }
            Err(refused) => return Acknowledged::ready(Err(refused)),
        }
        let (now, max) = (self.shared.now(), max.min(Self::MAX_DELETED));
        let store = self.store;
        let deleted =
            self.shared.with_answer(|state| state.engine.delete_messages(now, store, source, max, enqueued_before));
        self.shared.acknowledge(Ok(deleted))
    }

    /// Ends every lock early, as if it had run out. An external broker does this when it restarts or when a
    /// connection breaks; here a test sees how settlements fail.
    pub fn lose_locks(&self) {
        let now = self.shared.now();
        self.shared.with(|state| state.engine.lose_locks(now, self.store, self.part));
    }

    /// Returns the number of messages, by state. All are 0 if the entity is deleted.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let now = self.shared.now();
        self.shared.with(|state| state.engine.counts(now, self.store, self.part))
    }

    /// Returns since when the oldest messages wait. Visits every message once.
    #[must_use]
    pub fn ages(&self) -> Ages {
        let now = self.shared.now();
        self.shared.with(|state| state.engine.ages(now, self.store, self.part))
    }

    /// Returns the settings; for a subscription in the form of a queue's. Errors:
    /// [`EntityNotFound`](ErrorKind::EntityNotFound).
    pub fn settings(&self) -> Result<QueueSettings, ManageError> {
        self.shared.check_open::<ManageError>()?;
        let now = self.shared.now();
        let settings = self.shared.with(|state| state.engine.queue_settings(now, self.store));
        settings.ok_or_else(|| ManageError::new(ErrorKind::EntityNotFound).with_detail(self.entity.to_string()))
    }
}

impl Queue {
    /// Returns the same error with the path, if the entity was deleted: the engine does not know it any more.
    #[cold]
    pub(super) fn refusal(&self, error: ReceiveError) -> ReceiveError {
        match error.kind() {
            ErrorKind::EntityNotFound => error.with_detail(self.entity.to_string()),
            _ => error,
        }
    }

    /// Does the same for a session, and names one that is held.
    #[cold]
    pub(super) fn session_refusal(&self, id: &str, error: ReceiveError) -> ReceiveError {
        match error.kind() {
            ErrorKind::SessionCannotBeLocked => error.with_detail(format!("{}: session {}", self.path(), Escaped(id))),
            _ => self.refusal(error),
        }
    }

    /// The entity's data for log lines. A dead letter has no last delivery.
    #[cold]
    pub(super) fn info(&self) -> EntityInfo {
        let info = EntityInfo::new(self.path().as_str());
        match self.settings() {
            Ok(settings) if self.part == Part::Main => info.max_delivery_count(settings.max_delivery_count),
            _ => info,
        }
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("path", &self.path()).finish_non_exhaustive()
    }
}
