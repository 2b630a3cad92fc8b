//! Senders.

mod target;

use std::{
    borrow::Cow,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use consign_core::{
    Message,
    message::{EntityPath, SequenceNumber},
    settlement::DeadLetter,
    time::Timestamp,
    transport::{self, Batch, Capabilities, Capability, ErrorKind, Level, SendError, Unsupported},
};
use futures_util::future::join_all;
use lapin::types::ShortString;

pub(crate) use self::target::Target;
use self::target::{Resolving, Work};
use crate::{
    RabbitMq,
    client::Shared,
    delays::Delays,
    error::Failure,
    publisher::{Publication, Publisher, Publishing, Route},
    reply_to::QUEUE,
    session,
    settings::QueueSettings,
    wire::{self, Expiration, Stamp},
};

/// Sends to one queue or topic. Clones share a channel, and each send waits for the broker's confirm.
///
/// Messages are sent in the order of the calls of `send`, as long as no more are in flight than the options allow.
#[derive(Clone)]
pub struct RabbitMqSender(Arc<Parts>);

/// What clones share.
struct Parts {
    shared: Arc<Shared>,
    publisher: Publisher,
    path: EntityPath,
    target: Resolving,
}

impl std::fmt::Debug for RabbitMqSender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RabbitMqSender").field("path", &self.0.path).finish_non_exhaustive()
    }
}

impl RabbitMqSender {
    pub(crate) fn new(shared: &Arc<Shared>, path: EntityPath, target: Option<Target>, publisher: Publisher) -> Self {
        Self(Arc::new(Parts { shared: Arc::clone(shared), publisher, path, target: Resolving::new(target) }))
    }

    /// Returns the path of the target.
    #[must_use]
    pub fn path(&self) -> &EntityPath {
        &self.0.path
    }

    /// Sends messages that become visible at `at`, or at once if that has passed. Returns their numbers in order. They cannot
    /// be cancelled. At most 49 days ahead; `InvalidArgument` beyond.
    ///
    /// They arrive no earlier than `at` by the clock of this process, and up to 0.1 s later when the broker is idle.
    pub async fn schedule(&self, messages: Vec<Message>, at: Timestamp) -> Result<Vec<SequenceNumber>, SendError> {
        let messages = messages.into_iter().map(|mut message| {
            message.properties_mut().set_scheduled_enqueue_time(at);
            message
        });
        let target = self.resolve().await?;
        let (numbers, prepared): (Vec<_>, Vec<_>) = self.prepare(messages, &target)?.into_iter().unzip();
        self.send_prepared(prepared, target).await?;
        Ok(numbers.into_iter().map(SequenceNumber::new).collect())
    }

    /// Checks and writes messages that are sent together. Scheduled messages have one delay, so that they stay in order.
    fn prepare(
        &self,
        messages: impl Iterator<Item = Message>,
        target: &Target,
    ) -> Result<Vec<(u64, Prepared)>, SendError> {
        let now = self.0.shared.now();
        messages.map(|message| self.prepare_one(message, target, now)).collect()
    }

    fn prepare_one(&self, mut message: Message, target: &Target, now: Timestamp) -> Result<(u64, Prepared), SendError> {
        DeadLetter::remove_from(&mut message);
        let message = &message;
        // RabbitMQ would close the channel, and with it other messages that are being sent.
        if message.reply_to() == Some(QUEUE) && !self.0.publisher.has_replies() {
            let detail =
                "direct replies are received by the sender of `direct_replies` alone: use `create_reply_queue`";
            return Err(SendError::new(ErrorKind::NotSupported).with_detail(detail));
        }
        let due = message.scheduled_enqueue_time().filter(|at| *at > now);
        let delay = due.map(|at| Delays::steps(at.saturating_since(now))).transpose()?;
        let (time_to_live, is_topic) = match target {
            Target::Queue(settings) => {
                check_queue(message, settings)?;
                (settings.default_time_to_live, false)
            }
            Target::Topic(ttl) => (*ttl, true),
            Target::Exchange if delay.is_some() => {
                let detail = "the exchange is of another program: a scheduled message would have another routing key";
                return Err(SendError::new(ErrorKind::NotSupported).with_detail(detail));
            }
            Target::Exchange => (None, true),
            Target::Reply(_) if delay.is_some() => return Err(Unsupported::new(Capability::Scheduling).into()),
            Target::Reply(_) => (None, false),
        };
        let place: Cow<'_, str> = match target {
            Target::Reply(address) => address.as_str().into(),
            Target::Queue(settings) if settings.requires_session => session::queue_of(
                &self.0.path,
                message.session_id().ok_or_else(SendError::session_required)?,
                settings.session_slots,
            )
            .into(),
            Target::Queue(_) | Target::Topic(_) | Target::Exchange => self.0.path.as_str().into(),
        };
        let number = self.0.shared.numbers.next(now);
        let stamp = Stamp {
            number: Some(number),
            enqueued: Some(due.unwrap_or(now)),
            failed: 0,
            time_to_live,
            mirrored: is_topic,
            delayed_to: delay.is_some().then(|| place.clone().into_owned()),
            expiration: if delay.is_some() { Expiration::Never } else { Expiration::TimeToLive },
        };
        let key = match target {
            Target::Queue(_) | Target::Reply(_) => (*place).into(),
            Target::Topic(_) => "".into(),
            Target::Exchange => routing_key(message)?,
        };
        let written = wire::write(message, &stamp)?;
        let publication = Publication {
            exchange: if is_topic { (*place).into() } else { "".into() },
            key,
            route: match target {
                // The plugin for delayed messages routes one later, and would return it now.
                Target::Exchange if message.application_properties().get(PLUGIN_DELAY).is_some() => Route::Optional,
                Target::Queue(_) | Target::Exchange => Route::Mandatory,
                // RabbitMQ returns each mandatory message for a direct reply, because it goes to no queue, and delivers it too.
                Target::Topic(_) | Target::Reply(_) => Route::Optional,
            },
            properties: written.properties,
            payload: written.payload,
        };
        let delay = delay.map(|steps| (steps, place.into_owned()));
        Ok((number, Prepared { publication, delay }))
    }

    fn send_prepared(
        &self,
        prepared: Vec<Prepared>,
        target: Target,
    ) -> impl Future<Output = Result<(), SendError>> + Send + 'static {
        let sender = self.clone();
        async move {
            let mut publications = Vec::with_capacity(prepared.len());
            let shared = &sender.0.shared;
            for Prepared { mut publication, delay } in prepared {
                if let Some((steps, place)) = delay {
                    let delays = shared.delays().await?;
                    delays.route(&shared.link, &place, matches!(target, Target::Topic(_))).await?;
                    (publication.exchange, publication.key) = delays.entry(steps);
                    publication.route = Route::Mandatory;
                }
                publications.push(publication);
            }
            let mut started = Vec::with_capacity(publications.len());
            let mut outcome = Ok(());
            for publication in publications {
                match sender.0.publisher.enqueue(publication).await {
                    Ok(publishing) => started.push(publishing),
                    Err(failure) => {
                        outcome = Err(failure);
                        break;
                    }
                }
            }
            let outcomes = join_all(started).await;
            let is_any_stored = outcomes.iter().any(Result::is_ok);
            let failures = outcomes.into_iter().filter_map(Result::err).chain(outcome.err());
            of_all(is_any_stored, failures.map(|failure| sender.error(&target, failure)))
        }
    }

    /// Returns the error of a message that was published.
    fn error_of(&self, failure: Failure) -> SendError {
        match self.0.target.get() {
            Some(target) => self.error(target, failure),
            None => failure.into(),
        }
    }

    /// The broker does not report why it refuses: a queue with a limit is full.
    fn error(&self, target: &Target, failure: Failure) -> SendError {
        match (target, failure.kind()) {
            (_, ErrorKind::EntityNotFound) => {
                self.0.shared.entities.doubt(&self.0.path);
                failure.into()
            }
            (Target::Queue(settings), ErrorKind::General) if settings.max_length_bytes.is_some() => {
                SendError::new(ErrorKind::QuotaExceeded).with_detail("the queue is full")
            }
            _ => failure.into(),
        }
    }
}

/// Returns the result of a batch. If some messages are or may be stored, its error must not report a refusal.
fn of_all(is_any_stored: bool, mut errors: impl Iterator<Item = SendError>) -> Result<(), SendError> {
    let Some(first) = errors.next() else { return Ok(()) };
    if first.is_outcome_unknown() {
        return Err(first);
    }
    if !is_any_stored && !errors.any(|error| error.is_outcome_unknown()) {
        return Err(first);
    }
    let is_retryable = first.is_retryable();
    let error = SendError::new(ErrorKind::General).with_detail("a part of the batch is or may be stored");
    Err(error.with_retryable(is_retryable).with_source(first))
}

struct Prepared {
    publication: Publication,
    /// Steps of a delay, and the target queue or exchange.
    delay: Option<(u32, String)>,
}

/// The property of a message that the delayed-message plugin of RabbitMQ delays.
const PLUGIN_DELAY: &str = "x-delay";

/// Returns the routing key of a message to an exchange of another program.
fn routing_key(message: &Message) -> Result<ShortString, SendError> {
    let long =
        |_| SendError::new(ErrorKind::InvalidArgument).with_detail("the Subject is the routing key: 255 bytes at most");
    ShortString::try_new(message.subject().unwrap_or_default().to_owned()).map_err(long)
}

fn check_queue(message: &Message, settings: &QueueSettings) -> Result<(), SendError> {
    if settings.max_message_size.is_some_and(|max| message.size() > max) {
        return Err(SendError::new(ErrorKind::MessageSizeExceeded));
    }
    Ok(())
}

/// The future of a send: it ends with the broker's confirm, or with the deadline.
pub struct RabbitMqSending(State);

enum State {
    Refused(Option<SendError>),
    /// The common case.
    Published {
        publishing: Publishing,
        sender: RabbitMqSender,
    },
    Awaited(Pin<Box<dyn Future<Output = Result<(), SendError>> + Send>>),
}

impl Future for RabbitMqSending {
    type Output = Result<(), SendError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            State::Refused(error) => {
                let again = || SendError::new(ErrorKind::General).with_detail("polled after its end");
                Poll::Ready(Err(error.take().unwrap_or_else(again)))
            }
            State::Published { publishing, sender } => {
                Poll::Ready(ready!(Pin::new(publishing).poll(cx)).map_err(|failure| sender.error_of(failure)))
            }
            State::Awaited(sending) => sending.as_mut().poll(cx),
        }
    }
}

impl std::fmt::Debug for RabbitMqSending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RabbitMqSending").finish_non_exhaustive()
    }
}

impl RabbitMqSending {
    fn awaited(future: impl Future<Output = Result<(), SendError>> + Send + 'static) -> Self {
        Self(State::Awaited(Box::pin(future)))
    }
}

impl RabbitMqSender {
    /// Publishes, in the order of the calls.
    fn start(&self, target: &Target, work: Work) -> RabbitMqSending {
        match work {
            Work::One(message) => self.start_one(target, *message),
            Work::Batch(batch) => self.start_batch(target, batch),
        }
    }

    fn start_one(&self, target: &Target, message: Message) -> RabbitMqSending {
        let prepared = match self.prepare_one(message, target, self.0.shared.now()) {
            Ok((_, prepared)) => prepared,
            Err(error) => return RabbitMqSending(State::Refused(Some(error))),
        };
        if prepared.delay.is_some() {
            return RabbitMqSending::awaited(self.send_prepared(vec![prepared], target.clone()));
        }
        let publishing = self.0.publisher.start(prepared.publication);
        RabbitMqSending(State::Published { publishing, sender: self.clone() })
    }

    fn start_batch(&self, target: &Target, batch: Batch) -> RabbitMqSending {
        match self.prepare(batch.into_messages().into_iter(), target) {
            Ok(prepared) => {
                let prepared = prepared.into_iter().map(|(_, one)| one).collect();
                RabbitMqSending::awaited(self.send_prepared(prepared, target.clone()))
            }
            Err(error) => RabbitMqSending(State::Refused(Some(error))),
        }
    }
}

impl transport::Sender for RabbitMqSender {
    type Send = RabbitMqSending;

    fn send(&self, message: Message) -> RabbitMqSending {
        match self.0.target.get() {
            Some(target) => self.start_one(target, message),
            None => self.wait(Work::One(Box::new(message))),
        }
    }

    /// Checks all messages before any is published, and publishes them in one go. AMQP 0-9-1 has no transfer of several
    /// messages. If the connection breaks or the queue fills up meanwhile, some may be stored, and the error reports an unknown
    /// outcome.
    fn send_batch(&self, batch: Batch) -> RabbitMqSending {
        match self.0.target.get() {
            Some(target) => self.start_batch(target, batch),
            None => self.wait(Work::Batch(batch)),
        }
    }

    /// A reply that is sent by direct reply-to cannot be delayed, nor a message to an exchange of another program.
    fn capabilities(&self) -> Capabilities {
        let can = RabbitMq::CAPABILITIES;
        match self.0.target.get() {
            Some(Target::Reply(_) | Target::Exchange) => {
                can.with(Capability::Scheduling, Level::Unsupported).with(Capability::DelayedRetry, Level::Unsupported)
            }
            _ => can,
        }
    }
}

#[cfg(test)]
mod tests;
