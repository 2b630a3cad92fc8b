use std::{fmt, sync::Arc};

use consign_core::{
    Message,
    administration::EntityKind,
    message::{EntityPath, SequenceNumber},
    time::Timestamp,
    transport::{Batch, BoxFuture, Capabilities, ErrorKind, SendError, Sender},
};
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};
use tokio_postgres::{Transaction, types::Type};

use crate::{
    Inner,
    database::{Connection, Parameter},
    entity::Entity,
    lease::notify_in,
    prepared::{Origin, Prepared, Sent, insert},
    quota,
    together::{self, Request},
};

pub(crate) fn bytes(messages: &[Prepared]) -> u64 {
    messages.iter().map(|message| u64::try_from(message.size).unwrap_or(0)).sum()
}

/// Sends to a queue or a topic. The future of a send ends when its transaction is committed.
///
/// Sends are accepted in the order of the calls, and those that wait for each other are committed together. Dropping the
/// future does not cancel the send. At most [1,000](PostgresSender::WAITING) calls wait in that order; the next ones wait for these,
/// in the order in which their futures are first polled, and dropping such a future cancels its send.
///
/// # Errors
///
/// [`InvalidArgument`](ErrorKind::InvalidArgument) names the field; [`MessageSizeExceeded`](ErrorKind::MessageSizeExceeded) and
/// [`QuotaExceeded`](ErrorKind::QuotaExceeded) name the limit; [`Serialization`](ErrorKind::Serialization) for a value of more
/// than 32 levels; [`InvalidOperation`](ErrorKind::InvalidOperation) if the entity requires sessions and the message has none;
/// [`EntityDisabled`](ErrorKind::EntityDisabled) and [`EntityNotFound`](ErrorKind::EntityNotFound). After
/// [`CommunicationProblem`](ErrorKind::CommunicationProblem) and [`ServiceTimeout`](ErrorKind::ServiceTimeout) the outcome is
/// unknown, and a repeated send may store the message twice: a duplicate window drops the second.
#[derive(Clone)]
pub struct PostgresSender {
    inner: Arc<Inner>,
    pub(crate) entity: Entity,
    requests: mpsc::Sender<Request>,
}

impl PostgresSender {
    /// The maximum of waiting calls.
    pub const WAITING: usize = 1_000;
    /// The maximum bytes of a batch of several messages, bodies and properties.
    pub const MAX_BATCH: usize = 1 << 20;

    /// Creates a sender to the entity at `path`.
    pub(crate) fn new(inner: Arc<Inner>, path: &EntityPath, entity: Entity) -> Result<Self, SendError> {
        check_target(path, &entity)?;
        let (requests, receiver) = mpsc::channel(Self::WAITING);
        tokio::spawn(together::run(Arc::clone(&inner), entity.clone(), receiver));
        Ok(Self { inner, entity, requests })
    }

    /// Returns the path of the entity.
    #[must_use]
    pub fn path(&self) -> &EntityPath {
        &self.entity.path
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }

    /// Sends messages that cannot be received before `at`; if that has passed they are sent at once. All are accepted, or none.
    /// Returns their sequence numbers, in order. The number of a duplicate is that of the scheduled message that it repeats, or
    /// 0 if that is not scheduled any more.
    ///
    /// The messages before them that have no number yet get theirs first, 1,000 in each round trip.
    ///
    /// # Errors
    ///
    /// Those of a send. [`ServiceTimeout`](ErrorKind::ServiceTimeout) also if that takes longer than
    /// [`Options::timeout`](crate::Options::timeout): then the messages are scheduled, and their numbers are not known.
    pub async fn schedule(&self, messages: Vec<Message>, at: Timestamp) -> Result<Vec<SequenceNumber>, SendError> {
        schedule(&self.inner, &self.entity, messages, at).await
    }

    /// Cancels scheduled messages: all of them, or none.
    ///
    /// # Errors
    ///
    /// [`MessageNotFound`](ErrorKind::MessageNotFound) if one of them is not scheduled here, because it has become active or
    /// was cancelled.
    pub async fn cancel_scheduled(&self, numbers: &[SequenceNumber]) -> Result<(), SendError> {
        cancel_scheduled(&self.inner, &self.entity, numbers).await
    }

    /// Sends messages in a transaction of your own, which sends them by its commit. No other process waits for its end. Their
    /// numbers are assigned after it. With a time they are scheduled. The size of the entity is checked against committed
    /// messages.
    ///
    /// After an error that comes from the database, such as that of a disabled entity, the transaction can only be rolled back.
    pub async fn send_in(
        &self,
        transaction: &Transaction<'_>,
        messages: impl IntoIterator<Item = Message>,
    ) -> Result<(), SendError> {
        let messages = messages.into_iter().map(|message| Prepared::new(message, None));
        let messages = messages.collect::<Result<Vec<_>, _>>()?;
        check(&self.inner, transaction, &self.entity, &messages).await?;
        let all: Vec<&Prepared> = messages.iter().collect();
        insert(transaction, &self.inner.schema, (self.entity.id, self.entity.has_window), &all, Origin::default())
            .await?;
        Ok(notify_in(transaction, &self.inner.schema, self.entity.id, self.entity.forwards).await?)
    }
}

/// Checks that an entity takes messages. Errors: [`InvalidOperation`](ErrorKind::InvalidOperation).
pub(crate) fn check_target(path: &EntityPath, entity: &Entity) -> Result<(), SendError> {
    let refused = |detail: &'static str| Err(SendError::new(ErrorKind::InvalidOperation).with_detail(detail));
    if path.is_sub_queue() {
        return refused("sending to a dead-letter sub-queue is not allowed");
    }
    if entity.kind == EntityKind::Subscription {
        return refused("a subscription gets messages from its topic only");
    }
    Ok(())
}

/// Schedules messages: [`PostgresSender::schedule`].
pub(crate) async fn schedule(
    inner: &Arc<Inner>,
    entity: &Entity,
    messages: Vec<Message>,
    at: Timestamp,
) -> Result<Vec<SequenceNumber>, SendError> {
    let messages = messages.into_iter().map(|message| Prepared::new(message, Some(at)));
    let messages = messages.collect::<Result<Vec<_>, _>>()?;
    check(inner, &inner.database, entity, &messages).await.map_err(rejection)?;
    let all: Vec<&Prepared> = messages.iter().collect();
    let sent = inner
        .database
        .with(async |client| {
            insert(&inner.database.on(client), &inner.schema, (entity.id, entity.has_window), &all, Origin::default())
                .await
        })
        .await;
    let sent = sent.map_err(|failure| rejection(failure.into()))?;
    let numbers = numbers(inner, entity.id, &sent).await;
    arrived(inner, entity).await;
    numbers.map_err(|error| {
        if error.is_outcome_unknown() || error.kind() == ErrorKind::EntityNotFound {
            return error;
        }
        // They are committed. Another error would report that they are not.
        SendError::new(ErrorKind::ServiceTimeout)
            .with_detail("the messages are scheduled, and their numbers are not known")
            .with_source(error)
    })
}

/// Cancels scheduled messages: [`PostgresSender::cancel_scheduled`].
pub(crate) async fn cancel_scheduled(
    inner: &Inner,
    entity: &Entity,
    numbers: &[SequenceNumber],
) -> Result<(), SendError> {
    let numbers: Vec<i64> = numbers.iter().map(|number| number.get().cast_signed()).collect();
    let parameters: [Parameter<'_>; 2] = [(&entity.id, Type::INT8), (&numbers, Type::INT8_ARRAY)];
    inner.database.rows(&inner.sql("SELECT {s}.cancel($1, $2)"), &parameters).await?;
    Ok(())
}

/// Returns the numbers of sent messages; 0 for one that has none any more.
pub(crate) async fn numbers(inner: &Inner, entity: i64, sent: &[Sent]) -> Result<Vec<SequenceNumber>, SendError> {
    let ids: Vec<Option<i64>> = sent
        .iter()
        .map(|sent| match sent {
            Sent::New(id) => Some(*id),
            Sent::Duplicate(first) => *first,
        })
        .collect();
    let parameters: [Parameter<'_>; 2] = [(&entity, Type::INT8), (&ids, Type::INT8_ARRAY)];
    // They are numbered a batch at a time, and others may be before them.
    let until = Instant::now() + inner.database.timeout;
    loop {
        let numbers: Option<Vec<Option<i64>>> = inner.value("SELECT {s}.numbers_of($1, $2)", &parameters).await?;
        if let Some(numbers) = numbers.unwrap_or_default().into_iter().collect::<Option<Vec<i64>>>() {
            return Ok(numbers.into_iter().map(|number| SequenceNumber::new(number.cast_unsigned())).collect());
        }
        if Instant::now() >= until {
            let detail = "the messages are scheduled, and many before them have no number yet";
            return Err(SendError::new(ErrorKind::ServiceTimeout).with_detail(detail));
        }
    }
}

/// Checks whether the entity takes these, as far as the database does not check it.
pub(crate) async fn check(
    inner: &Arc<Inner>,
    connection: &impl Connection,
    entity: &Entity,
    messages: &[Prepared],
) -> Result<(), SendError> {
    quota::check(inner, connection, entity.id, messages.len(), bytes(messages)).await?
}

/// Adds the details of each refusal.
pub(crate) fn rejection(error: SendError) -> SendError {
    match error.kind().condition() {
        Some(condition) if error.condition().is_none() && !error.is_retryable() => error.with_condition(condition),
        _ => error,
    }
}

/// Handles messages that have been sent to an entity.
pub(crate) async fn arrived(inner: &Arc<Inner>, entity: &Entity) {
    if entity.forwards {
        // They are accepted. If it fails, the next process that checks forwards them.
        crate::pump::try_pump(inner, entity.id).await;
    }
    inner.arrived(entity.id);
}

impl PostgresSender {
    fn request(&self, messages: Result<Vec<Prepared>, SendError>) -> BoxFuture<Result<(), SendError>> {
        let messages = match messages {
            Ok(messages) => messages,
            Err(refused) => return Box::pin(async { Err(rejection(refused)) }),
        };
        let (answer, answered) = oneshot::channel();
        let request = Request { messages, answer, _work: self.inner.pending.begin() };
        // The order of the calls counts, not that of the polls.
        let left = match self.requests.try_send(request) {
            Ok(()) => None,
            Err(mpsc::error::TrySendError::Full(request) | mpsc::error::TrySendError::Closed(request)) => {
                Some((self.requests.clone(), request))
            }
        };
        Box::pin(async move {
            let gone = || SendError::new(ErrorKind::CommunicationProblem).with_detail("the runtime is shutting down");
            if let Some((requests, request)) = left {
                requests.send(request).await.map_err(|_| gone())?;
            }
            answered.await.unwrap_or_else(|_| Err(gone()))
        })
    }
}

impl Sender for PostgresSender {
    type Send = BoxFuture<Result<(), SendError>>;

    fn send(&self, message: Message) -> Self::Send {
        self.request(Prepared::new(message, None).map(|message| vec![message]))
    }

    fn send_batch(&self, batch: Batch) -> Self::Send {
        let size = batch.size();
        if batch.len() > 1 && size > Self::MAX_BATCH {
            let detail = format!("{size} bytes in one batch, at most {}", Self::MAX_BATCH);
            let refused = SendError::new(ErrorKind::MessageSizeExceeded).with_detail(detail);
            return self.request(Err(refused));
        }
        self.request(batch.into_messages().into_iter().map(|message| Prepared::new(message, None)).collect())
    }

    fn capabilities(&self) -> Capabilities {
        crate::capabilities::CAPABILITIES
    }
}

impl fmt::Debug for PostgresSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresSender").field("path", &self.entity.path).finish_non_exhaustive()
    }
}
