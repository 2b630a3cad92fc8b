use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
    time::Duration,
};

use consign_core::{
    message::EntityPath,
    time::{Clock, SystemClock, Timestamp},
    transport::{ErrorKind, ManageError, ReceiveError, SendError},
};
use lapin::{
    options::{QueueDeclareOptions, QueueDeleteOptions},
    types::{AMQPValue, FieldTable},
};
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use crate::{
    Options, QueueSettings, RabbitMqReceiver, RabbitMqSender,
    cancels::Cancels,
    delays::Delays,
    error::{Failure, within},
    link::{Leased, Link},
    numbers::Numbers,
    publisher::Publisher,
    receiver::{Mode, Source},
    reply,
    sender::Target,
    session::{self, Slots},
    settings::check_path,
};

/// A RabbitMQ client: creates queues, topics, senders and receivers. Clones share one connection.
#[derive(Clone)]
pub struct RabbitMq(pub(crate) Arc<Shared>);

pub(crate) struct Shared {
    pub(crate) link: Arc<Link>,
    pub(crate) numbers: Numbers,
    /// Distinguishes the locks of this process from those of another.
    pub(crate) salt: u64,
    clock: SystemClock,
    known: Arc<Mutex<HashMap<String, Known>>>,
    moves: OnceLock<Publisher>,
    delays: OnceCell<Delays>,
    pub(crate) cancels: Arc<Cancels>,
    /// The slots of sessions that are read here.
    pub(crate) slots: Slots,
}

/// An entity whose settings were registered here.
#[derive(Clone, Debug)]
pub(crate) enum Known {
    Queue(Arc<QueueSettings>),
    Topic(Option<Duration>),
}

impl std::fmt::Debug for RabbitMq {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RabbitMq").finish_non_exhaustive()
    }
}

impl Shared {
    fn new(link: Link, known: Arc<Mutex<HashMap<String, Known>>>) -> Self {
        Self {
            link: Arc::new(link),
            numbers: Numbers::new(),
            salt: fastrand::u64(..),
            clock: SystemClock::new(),
            known,
            moves: OnceLock::new(),
            delays: OnceCell::new(),
            cancels: Arc::default(),
            slots: Slots::default(),
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now().utc
    }

    /// The publisher for copies of messages that move.
    pub(crate) fn moves(&self) -> &Publisher {
        self.moves.get_or_init(|| Publisher::spawn(Arc::clone(&self.link)))
    }

    pub(crate) async fn delays(&self) -> Result<&Delays, Failure> {
        self.delays.get_or_try_init(|| Delays::declare(self)).await
    }

    pub(crate) fn known(&self, path: &EntityPath) -> Option<Known> {
        self.known.lock().get(path.as_str()).cloned()
    }

    pub(crate) fn settings(&self, path: &EntityPath) -> Arc<QueueSettings> {
        match self.known(&path.parent()) {
            Some(Known::Queue(settings)) => settings,
            Some(Known::Topic(_)) | None => Arc::default(),
        }
    }

    pub(crate) fn remember(&self, path: &EntityPath, known: Known) {
        self.known.lock().insert(path.as_str().to_owned(), known);
    }

    pub(crate) fn forget(&self, path: &EntityPath) {
        self.known.lock().remove(path.as_str());
    }

    /// Forgets the bindings of a delay target. It is bound again if it is created again.
    pub(crate) fn forget_delays(&self, name: &str) {
        if let Some(delays) = self.delays.get() {
            delays.forget(name);
        }
    }

    pub(crate) fn known_subscriptions(&self, topic: &EntityPath) -> Vec<EntityPath> {
        let known = self.known.lock();
        let paths = known.keys().filter_map(|path| EntityPath::new(path).ok());
        paths.filter(|path| path.subscription().is_some_and(|(of, _)| of == topic.as_str())).collect()
    }

    /// Runs one operation on a channel of its own, which an error may end.
    pub(crate) async fn manage<T, F>(&self, what: &str, operation: F) -> Result<T, Failure>
    where
        F: AsyncFnOnce(&Leased) -> lapin::Result<T>,
    {
        let leased = self.link.channel().await?;
        let result = within(self.link.deadline(), what, operation(&leased)).await;
        leased.close(self.link.deadline()).await;
        result
    }

    /// Returns whether a queue of this name exists.
    pub(crate) async fn has_queue(&self, name: &str) -> Result<bool, Failure> {
        let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::durable() };
        let asking =
            async |leased: &Leased| leased.channel.queue_declare(name.into(), options, FieldTable::default()).await;
        match self.manage("queue.declare", asking).await {
            Ok(_) => Ok(true),
            Err(failure) if failure.kind() == ErrorKind::EntityNotFound => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    pub(crate) async fn declare(&self, name: &str, arguments: FieldTable) -> Result<(), Failure> {
        let declaring = async |leased: &Leased| {
            leased.channel.queue_declare(name.into(), QueueDeclareOptions::durable(), arguments).await
        };
        self.manage("queue.declare", declaring).await.map(drop)
    }

    pub(crate) async fn declare_dead_letters(&self, path: &EntityPath) -> Result<(), Failure> {
        self.declare(path.as_str(), quorum().into()).await
    }

    pub(crate) async fn delete_queue(&self, name: &str) -> Result<(), Failure> {
        let deleting =
            async |leased: &Leased| leased.channel.queue_delete(name.into(), QueueDeleteOptions::default()).await;
        self.cancels.deleting(name, self.manage("queue.delete", deleting)).await.map(drop)
    }

    /// Creates a queue and its dead-letter queue.
    pub(crate) async fn create(&self, path: &EntityPath, settings: &QueueSettings) -> Result<(), Failure> {
        let dead = path.dead_letter();
        self.declare_dead_letters(&dead).await?;
        if settings.requires_session {
            return session::declare(self, path, settings).await;
        }
        self.declare(path.as_str(), arguments(settings, &dead).into()).await
    }

    /// Returns whether the queue exists, with these settings or without sessions.
    async fn has(&self, path: &EntityPath, settings: &QueueSettings) -> Result<bool, Failure> {
        let first = session::queue(path, 0, settings.session_slots);
        Ok(self.has_queue(path.as_str()).await? || settings.requires_session && self.has_queue(&first).await?)
    }

    /// Deletes a queue with its dead-letter queue. In the other order a failure in between would leave dead letters that are
    /// never deleted.
    pub(crate) async fn delete(&self, path: &EntityPath) -> Result<(), Failure> {
        let settings = self.settings(path);
        self.delete_queue(path.dead_letter().as_str()).await?;
        if settings.requires_session {
            session::delete(self, path, &settings).await?;
        } else {
            self.delete_queue(path.as_str()).await?;
            self.forget_delays(path.as_str());
        }
        self.forget(path);
        Ok(())
    }
}

pub(crate) type Arguments = std::collections::BTreeMap<lapin::types::ShortString, AMQPValue>;

/// The arguments of every queue of this crate. It is replicated, and returned messages go to its front, which RabbitMQ does for
/// a queue with a limit of deliveries. The limit is out of reach, because this crate counts itself. RabbitMQ: Quorum Queues.
pub(crate) fn quorum() -> Arguments {
    let mut arguments = Arguments::new();
    arguments.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
    arguments.insert("x-delivery-limit".into(), AMQPValue::LongLongInt(i64::from(i32::MAX)));
    arguments
}

pub(crate) fn arguments(settings: &QueueSettings, dead: &EntityPath) -> Arguments {
    let mut arguments = quorum();
    let number = |number: u128| AMQPValue::LongLongInt(i64::try_from(number).unwrap_or(i64::MAX));
    let mut refuses = false;
    if let Some(ttl) = settings.default_time_to_live {
        arguments.insert("x-message-ttl".into(), number(ttl.as_millis()));
    }
    if settings.dead_letter_on_expiration {
        arguments.extend(dead_lettering("", Some(dead.as_str())));
        refuses = true;
    }
    if let Some(bytes) = settings.max_length_bytes {
        arguments.insert("x-max-length-bytes".into(), number(bytes.into()));
        refuses = true;
    }
    if refuses {
        arguments.insert("x-overflow".into(), AMQPValue::LongString("reject-publish".into()));
    }
    arguments
}

/// The arguments for dead-lettering that loses nothing; the queue must have `reject-publish`. RabbitMQ: Quorum Queues, dead
/// lettering.
pub(crate) fn dead_lettering(exchange: &str, key: Option<&str>) -> Arguments {
    let mut arguments = Arguments::new();
    let text = |text: &str| AMQPValue::LongString(text.into());
    arguments.insert("x-dead-letter-exchange".into(), text(exchange));
    if let Some(key) = key {
        arguments.insert("x-dead-letter-routing-key".into(), text(key));
    }
    arguments.insert("x-dead-letter-strategy".into(), text("at-least-once"));
    arguments
}

impl RabbitMq {
    /// Connects with the default [`Options`].
    pub async fn connect(address: &str) -> Result<Self, ManageError> {
        Self::options().connect(address).await
    }

    /// Returns the options of a connection.
    pub fn options() -> Options {
        Options::default()
    }

    pub(crate) async fn open(options: Options, address: &str) -> Result<Self, ManageError> {
        Ok(Self(Arc::new(Shared::new(Link::open(options, address).await?, Arc::default()))))
    }

    /// Opens another connection with the same options and the same registered settings, for receivers that must not wait for
    /// one another's large messages. `InvalidOperation` if a channel was wrapped.
    pub async fn connect_again(&self) -> Result<Self, ManageError> {
        let link = self.0.link.again().await?;
        Ok(Self(Arc::new(Shared::new(link, Arc::clone(&self.0.known)))))
    }

    /// Wraps an existing channel. All senders and receivers share it, and it is switched to publisher confirms. An error such
    /// as an unknown queue closes it, as it closes any channel. This crate does not open another: from then on every call
    /// returns `CommunicationProblem`, which is not retryable.
    ///
    /// A receiver sets the prefetch of the channel before each of its subscriptions. It must be called within a runtime.
    #[must_use]
    pub fn wrap(channel: lapin::Channel) -> Self {
        Self(Arc::new(Shared::new(Link::wrap(channel), Arc::default())))
    }

    /// Creates a queue and its dead-letter queue, both quorum queues. The queue's name is the path as it is written; the
    /// dead-letter queue has `/$deadletterqueue` behind it. A queue that requires sessions is a pair of queues for each of its
    /// slots instead, `/$slot-00-16` and `/$note-00-16` for the first of 16.
    ///
    /// Two clients that create a queue with the same settings at the same time both succeed, as AMQP 0-9-1 defines it.
    ///
    /// # Errors
    ///
    /// `AlreadyExists`; a path or settings that are not allowed.
    pub async fn create_queue(&self, path: &str, settings: QueueSettings) -> Result<(), ManageError> {
        let path = check_path(path)?;
        settings.check()?;
        if path.is_sub_queue() {
            return Err(ManageError::new(ErrorKind::InvalidOperation).with_detail("a sub-queue comes with its queue"));
        }
        if self.0.has(&path, &settings).await? {
            return Err(ManageError::new(ErrorKind::AlreadyExists));
        }
        self.0.create(&path, &settings).await?;
        self.0.remember(&path, Known::Queue(Arc::new(settings)));
        Ok(())
    }

    /// Registers the settings of a queue that was created elsewhere. Settings that RabbitMQ stores are not compared.
    pub fn know(&self, path: &str, settings: QueueSettings) -> Result<(), ManageError> {
        settings.check()?;
        self.0.remember(&check_path(path)?, Known::Queue(Arc::new(settings)));
        Ok(())
    }

    /// Deletes a queue, a topic or a subscription, with its messages and its dead-letter queue. A topic is deleted if it is
    /// registered here, with its registered subscriptions. The same applies to an entity that requires sessions. A missing
    /// entity is `EntityNotFound`.
    pub async fn delete(&self, path: &str) -> Result<(), ManageError> {
        let path = check_path(path)?;
        if path.is_sub_queue() {
            return Err(ManageError::new(ErrorKind::InvalidOperation).with_detail("a sub-queue goes with its queue"));
        }
        if let Some(Known::Topic(_)) = self.0.known(&path) {
            return crate::topic::delete(&self.0, &path).await;
        }
        if !self.0.has(&path, &self.0.settings(&path)).await? {
            return Err(ManageError::new(ErrorKind::EntityNotFound));
        }
        Ok(self.0.delete(&path).await?)
    }

    /// Creates a sender to a queue or a topic, with a channel of its own. If the entity does not exist, the first send fails.
    /// It must be called within a runtime.
    ///
    /// # Errors
    ///
    /// A path that is not allowed; `InvalidOperation` for a dead-letter queue.
    pub fn sender(&self, path: &str) -> Result<RabbitMqSender, SendError> {
        self.sender_by(path, Publisher::spawn(Arc::clone(&self.0.link)))
    }

    pub(crate) fn sender_by(&self, path: &str, publisher: Publisher) -> Result<RabbitMqSender, SendError> {
        let path = check_path(path)?;
        if path.is_sub_queue() {
            return Err(SendError::new(ErrorKind::InvalidOperation).with_detail("nothing is sent to a sub-queue"));
        }
        if let Some(address) = reply::address(path.as_str()) {
            return Ok(RabbitMqSender::new(&self.0, path, Target::Reply(address), publisher));
        }
        let target = match self.0.known(&path) {
            Some(Known::Topic(ttl)) => Target::Topic(ttl),
            Some(Known::Queue(settings)) => Target::Queue(settings),
            None => Target::Queue(Arc::default()),
        };
        Ok(RabbitMqSender::new(&self.0, path, target, publisher))
    }

    /// Creates a receiver from a queue, a subscription or a dead-letter queue. If the entity does not exist, the first receive
    /// fails. It must be called within a runtime.
    ///
    /// # Errors
    ///
    /// A path that is not allowed; `InvalidOperation` for a queue that requires sessions.
    pub fn receiver(&self, path: &str) -> Result<RabbitMqReceiver, ReceiveError> {
        self.receive_from(path, Mode::PeekLock)
    }

    /// Creates a receiver whose messages are removed as they are delivered. Their acknowledgements are not answered: if the
    /// connection breaks in that instant a message is redelivered.
    pub fn receive_and_delete(&self, path: &str) -> Result<RabbitMqReceiver, ReceiveError> {
        self.receive_from(path, Mode::ReceiveAndDelete)
    }

    fn receive_from(&self, path: &str, mode: Mode) -> Result<RabbitMqReceiver, ReceiveError> {
        let path = check_path(path)?;
        let path = if path.is_sub_queue() { path.dead_letter() } else { path };
        let settings = self.0.settings(&path);
        if settings.requires_session && !path.is_dead_letter() {
            let detail = "the queue requires sessions";
            return Err(ReceiveError::new(ErrorKind::InvalidOperation).with_detail(detail));
        }
        Ok(RabbitMqReceiver::new(&self.0, Source { path, mode, settings }))
    }

    /// Closes the connection; a channel that was wrapped stays open. Unsettled messages return to their queues.
    pub async fn close(&self) {
        self.0.link.close().await;
    }
}
