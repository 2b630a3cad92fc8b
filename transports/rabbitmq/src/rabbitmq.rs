use std::sync::Arc;

use consign_core::transport::{ErrorKind, ManageError, ReceiveError, SendError};
use lapin::types::ShortString;

use crate::{
    Options, QueueSettings, RabbitMqReceiver, RabbitMqSender, TopicSettings,
    client::Shared,
    dead_letters::exchanges::DeadLetterExchange,
    entities::Known,
    link::Link,
    publisher::Publisher,
    receiver::{Mode, Settings, Source},
    reply_to,
    sender::Target,
    settings::check_path,
};

/// A RabbitMQ client: creates queues, topics, senders and receivers. Clones share one connection.
#[derive(Clone)]
pub struct RabbitMq(pub(crate) Arc<Shared>);

impl std::fmt::Debug for RabbitMq {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RabbitMq").finish_non_exhaustive()
    }
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
        Ok(Self(Arc::new(Shared::new(Link::open(options, address).await?, Arc::default(), Arc::default()))))
    }

    /// Opens another connection with the same options and the same registered settings, for receivers that must not wait for
    /// one another's large messages. `InvalidOperation` if a channel was wrapped.
    pub async fn connect_again(&self) -> Result<Self, ManageError> {
        let link = self.0.link.again().await?;
        Ok(Self(Arc::new(Shared::new(link, Arc::clone(&self.0.entities), Arc::clone(&self.0.dead_letters)))))
    }

    /// Wraps an existing channel. All senders and receivers share it, and it is switched to publisher confirms. An error such
    /// as an unknown queue closes it, as it closes any channel. This crate does not open another: from then on every call
    /// returns `CommunicationProblem`, which is not retryable.
    ///
    /// Publish on the channel by this crate alone: it tells the confirms and the returned messages of the channel apart. It has
    /// no [direct replies](Self::direct_replies) besides other senders.
    ///
    /// A receiver sets the prefetch of the channel before each of its subscriptions. It must be called within a runtime.
    #[must_use]
    pub fn wrap(channel: lapin::Channel) -> Self {
        Self(Arc::new(Shared::new(Link::wrap(channel), Arc::default(), Arc::default())))
    }

    /// Registers the settings of a queue that another program created, which has no settings on the server. Settings that
    /// RabbitMQ stores are not compared.
    pub fn register_queue(&self, path: &str, settings: QueueSettings) -> Result<(), ManageError> {
        settings.check()?;
        self.0.entities.register(&check_path(path)?, Known::Queue(Arc::new(settings)));
        Ok(())
    }

    /// Registers the exchange for the dead letters of a queue that another program created. Without a `routing_key` a dead letter
    /// has that of its message. It applies to this client and its clones, and takes precedence over the dead-letter exchange of
    /// the queue. This crate does not create the exchange or its queues.
    ///
    /// # Errors
    ///
    /// A path that is not allowed; [`InvalidArgument`](ErrorKind::InvalidArgument) for a name of more than 255 bytes.
    pub fn register_dead_letter_exchange(
        &self,
        path: &str,
        exchange: &str,
        routing_key: Option<&str>,
    ) -> Result<(), ManageError> {
        let long = |_| ManageError::new(ErrorKind::InvalidArgument).with_detail("a name has at most 255 bytes");
        let exchange = ShortString::try_new(exchange.to_owned()).map_err(long)?;
        let routing_key = routing_key.map(|key| ShortString::try_new(key.to_owned())).transpose().map_err(long)?;
        self.0.dead_letters.register(&check_path(path)?, DeadLetterExchange { exchange, routing_key });
        Ok(())
    }

    /// Takes the Subject of messages from a queue of another program from their routing key, by which a router selects its
    /// handler. It applies to messages without a `type` that were published to an exchange other than the default one, whose
    /// routing key is only the name of a queue, and to receivers that this client and its clones create afterwards. Copies of
    /// such a message, such as dead letters, have the Subject as their `type`. A registration is for the life of the client.
    ///
    /// # Errors
    ///
    /// A path that is not allowed. The sessions of such a queue are `InvalidOperation`: the routing key of a message of a session
    /// is that of its slot.
    pub fn register_subject_from_routing_key(&self, path: &str) -> Result<(), ManageError> {
        self.0.entities.take_subject_from_routing_key(&check_path(path)?);
        Ok(())
    }

    /// Registers a topic that another program created, with its settings. Its messages have an empty routing key, so it must be
    /// an exchange that does not route by that: a headers exchange or a fanout exchange.
    pub fn register_topic(&self, path: &str, settings: TopicSettings) -> Result<(), ManageError> {
        self.0.entities.register(&check_path(path)?, Known::Topic(settings.default_time_to_live));
        Ok(())
    }

    /// Creates a sender to a queue or a topic, with a channel of its own. The first send reads the settings of the entity from
    /// the server, unless this client has them. If the entity does not exist, the first send fails. A sender to the path of a
    /// subscription sends to that subscription alone, for example its dead letters again. It must be called within a runtime.
    ///
    /// # Errors
    ///
    /// A path that is not allowed; `InvalidOperation` for a dead-letter queue.
    pub fn sender(&self, path: &str) -> Result<RabbitMqSender, SendError> {
        let publisher =
            if self.0.link.is_wrapped() { self.0.moves().clone() } else { Publisher::spawn(Arc::clone(&self.0.link)) };
        self.sender_by(path, publisher)
    }

    pub(crate) fn sender_by(&self, path: &str, publisher: Publisher) -> Result<RabbitMqSender, SendError> {
        let path = check_path(path)?;
        if path.is_sub_queue() {
            return Err(
                SendError::new(ErrorKind::InvalidOperation).with_detail("sending to a sub-queue is not allowed")
            );
        }
        if let Some(address) = reply_to::address(path.as_str()) {
            return Ok(RabbitMqSender::new(&self.0, path, Some(Target::Reply(address)), publisher));
        }
        let target = self.0.entities.get(&path).map(Target::from);
        Ok(RabbitMqSender::new(&self.0, path, target, publisher))
    }

    /// Creates a receiver from a queue, a subscription or a dead-letter queue. The first receive reads the settings of the
    /// entity from the server, unless this client has them. If the entity does not exist, the first receive fails. It must be
    /// called within a runtime.
    ///
    /// # Errors
    ///
    /// A path that is not allowed; `InvalidOperation` for a queue that requires sessions, from the first receive if this client
    /// does not have its settings.
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
        let settings = Settings::kept(&self.0, &path);
        let subject_from_routing_key = self.0.entities.is_subject_from_routing_key(&path);
        let source = Source { path, mode, settings, subject_from_routing_key, has_delivery_limit: Arc::default() };
        source.check()?;
        Ok(RabbitMqReceiver::new(&self.0, source))
    }

    /// Closes the connection; a channel that was wrapped stays open. Unsettled messages return to their queues.
    ///
    /// # Errors
    ///
    /// None at present. The type is that of [`Transport::close`](consign_core::transport::Transport::close).
    pub async fn close(&self) -> Result<(), ManageError> {
        self.0.link.close().await;
        Ok(())
    }
}
