use std::sync::Arc;

use consign_core::{
    Message,
    message::{EntityPath, SequenceNumber},
    time::Timestamp,
    transport::{
        Capabilities, Capability, DynTransport, ErrorKind, ManageError, ReceiveError, ReceiveMode, ScheduleMessages,
        SendError, ServerAddress, Transport, Unsupported,
    },
};

use crate::{
    Amqp10Receiver, Amqp10Replies, Amqp10Sender, Options, Product,
    core::Core,
    dialer::Dialer,
    error::Failure,
    log,
    options::DeadLetters,
    receiver::{Mode, Place, Source},
    servers::Servers,
};

/// A broker of AMQP 1.0. Clones share its connections.
#[derive(Clone)]
pub struct Amqp10 {
    core: Arc<Core>,
    /// The connection that links share, where they share one.
    dialer: Dialer,
}

impl Amqp10 {
    /// Returns the default options.
    pub fn options() -> Options {
        Options::default()
    }

    /// Connects with the default options: [`Options::connect`].
    ///
    /// # Errors
    ///
    /// Those of [`Options::connect`].
    pub async fn connect(address: &str) -> Result<Self, ManageError> {
        Self::options().connect(address).await
    }

    pub(crate) async fn open(options: Options, servers: Servers) -> Result<Self, Failure> {
        let (core, dialer) = Dialer::first(options, servers).await?;
        Ok(Self { core, dialer })
    }

    /// Returns the product of the broker: that of [`Options::product`], or the one that the broker has reported.
    #[must_use]
    pub fn product(&self) -> Product {
        self.core.product()
    }

    /// Creates a source of replies at an address that the broker makes for it, for `consign::rpc`. The address ends with its
    /// connection, and its replies are removed as they are delivered.
    ///
    /// # Errors
    ///
    /// `NotSupported`, or another error of the broker, if it makes no addresses, or one that is not the [address](Options::address)
    /// of a path. Use `ReplyQueue` of `consign::rpc` with an entity then.
    pub async fn dynamic_replies(&self) -> Result<Amqp10Replies, ReceiveError> {
        let path = EntityPath::new("dynamic").map_err(ReceiveError::from)?;
        let source = Source::new(&self.core, self.link_dialer(), path, Mode::ReceiveAndDelete, Place::Dynamic);
        let receiver = Amqp10Receiver::open(source).await?;
        let Some(path) = receiver.dynamic_address().and_then(|address| self.core.path_of(&address)) else {
            let detail = "the broker made no address that a message can have as its ReplyTo: use a queue for replies";
            return Err(ReceiveError::new(ErrorKind::NotSupported).with_detail(detail));
        };
        Ok(Amqp10Replies::new(receiver, path.to_string()))
    }

    fn link_dialer(&self) -> Dialer {
        if self.core.product().shares_connections() { self.dialer.clone() } else { Dialer::new(&self.core) }
    }
}

impl std::fmt::Debug for Amqp10 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Amqp10").field("product", &self.product()).finish_non_exhaustive()
    }
}

impl Transport for Amqp10 {
    type Sender = Amqp10Sender;
    type Lease = crate::Amqp10Lease;
    type Receiver = Amqp10Receiver;

    /// They depend on the broker and on the options. The documentation of the crate has the reason of each level.
    fn capabilities(&self) -> Capabilities {
        self.core.capabilities()
    }

    /// The server, if the address has only one: with several, connections may be to different ones.
    fn server(&self) -> Option<ServerAddress> {
        let [server] = &*self.core.servers.all else { return None };
        Some(ServerAddress::new(server.host.as_str()).with_port(server.port))
    }

    async fn sender(&self, path: &EntityPath) -> Result<Amqp10Sender, SendError> {
        if path.is_sub_queue() {
            let detail = "only dead-lettering sends to a sub-queue";
            return Err(SendError::new(ErrorKind::InvalidOperation).with_detail(detail));
        }
        let sender = Amqp10Sender::new(&self.core, self.link_dialer(), path.clone());
        sender.open().await?;
        Ok(sender)
    }

    async fn receiver(&self, path: &EntityPath, mode: ReceiveMode) -> Result<Amqp10Receiver, ReceiveError> {
        if path.is_transfer_dead_letter() {
            let detail = "AMQP 1.0 has no transfer dead-letter sub-queue";
            return Err(ReceiveError::new(ErrorKind::EntityNotFound).with_detail(detail));
        }
        let place = if path.is_dead_letter() { Place::DeadLetters } else { Place::Entity };
        let mode = match mode {
            ReceiveMode::PeekLock => Mode::PeekLock,
            ReceiveMode::ReceiveAndDelete => Mode::ReceiveAndDelete,
        };
        let rejects = self.core.options.dead_letters == DeadLetters::Reject;
        if rejects && place == Place::Entity && mode == Mode::PeekLock {
            log::warn(
                path,
                "the broker decides what happens to dead letters of this receiver: check that it keeps them",
            );
        }
        let source = Source::new(&self.core, self.link_dialer(), path.clone(), mode, place);
        Ok(Amqp10Receiver::open(source).await?)
    }

    /// Begins a session, and ends it without waiting for the answer.
    async fn ping(&self) -> Result<(), ManageError> {
        Ok(self.dialer.ping().await?)
    }

    async fn close(&self) -> Result<(), ManageError> {
        Ok(self.core.close().await?)
    }
}

/// If the [options](Options::scheduling) declare that the broker supports it.
impl ScheduleMessages for Amqp10 {
    async fn schedule(
        &self,
        path: &EntityPath,
        messages: Vec<Message>,
        at: Timestamp,
    ) -> Result<Vec<SequenceNumber>, SendError> {
        if !self.core.options.schedules {
            return Err(Unsupported::new(Capability::Scheduling).into());
        }
        self.sender(path).await?.schedule(messages, at).await
    }

    async fn cancel_scheduled(&self, _: &EntityPath, _: &[SequenceNumber]) -> Result<(), SendError> {
        Err(Unsupported::new(Capability::CancelScheduled).into())
    }
}

impl From<Amqp10> for DynTransport {
    fn from(amqp: Amqp10) -> Self {
        let schedules = amqp.core.options.schedules;
        let builder = Self::builder(amqp.clone()).extension(amqp);
        if schedules { builder.schedule().build() } else { builder.build() }
    }
}
