//! RabbitMQ as a transport of consign.

use consign_core::{
    Message,
    message::{EntityPath, SequenceNumber},
    time::Timestamp,
    transport::{
        Capabilities, Capability, DynTransport, ManageError, ReceiveError, ReceiveMode, ScheduleMessages, SendError,
        ServerAddress, Sessions, Transport, Unsupported,
    },
};
use consign_rules::{DynRules, ManageRules, Rule};

use crate::{RabbitMq, RabbitMqLease, RabbitMqReceiver, RabbitMqSender, RabbitMqSession, SessionAcceptor};

impl Transport for RabbitMq {
    type Sender = RabbitMqSender;
    type Lease = RabbitMqLease;
    type Receiver = RabbitMqReceiver;

    fn capabilities(&self) -> Capabilities {
        Self::CAPABILITIES
    }

    /// `None` for a wrapped channel, and for a URL with several servers.
    fn server(&self) -> Option<ServerAddress> {
        self.0.link.server()
    }

    async fn sender(&self, path: &EntityPath) -> Result<RabbitMqSender, SendError> {
        let sender = Self::sender(self, path.as_str())?;
        sender.resolve().await?;
        Ok(sender)
    }

    async fn receiver(&self, path: &EntityPath, mode: ReceiveMode) -> Result<RabbitMqReceiver, ReceiveError> {
        let receiver = match mode {
            ReceiveMode::PeekLock => Self::receiver(self, path.as_str())?,
            ReceiveMode::ReceiveAndDelete => Self::receive_and_delete(self, path.as_str())?,
        };
        receiver.resolve().await?;
        Ok(receiver)
    }

    /// Sends `channel.flow` with `active` true, which changes nothing, on a channel that is kept for that, or on the wrapped one.
    async fn ping(&self) -> Result<(), ManageError> {
        Ok(self.0.link.ping().await?)
    }

    async fn close(&self) -> Result<(), ManageError> {
        Self::close(self).await
    }
}

impl ScheduleMessages for RabbitMq {
    async fn schedule(
        &self,
        path: &EntityPath,
        messages: Vec<Message>,
        at: Timestamp,
    ) -> Result<Vec<SequenceNumber>, SendError> {
        self.sender_by(path.as_str(), self.0.moves().clone())?.schedule(messages, at).await
    }

    /// Returns `NotSupported`.
    async fn cancel_scheduled(&self, _: &EntityPath, _: &[SequenceNumber]) -> Result<(), SendError> {
        Err(Unsupported::new(Capability::CancelScheduled).into())
    }
}

impl Sessions for RabbitMq {
    type Session = RabbitMqSession;
    type SessionSource = SessionAcceptor;

    async fn sessions(&self, path: &EntityPath) -> Result<SessionAcceptor, ReceiveError> {
        self.resolved_acceptor(path.as_str()).await
    }
}

impl ManageRules for RabbitMq {
    async fn create_rule(&self, subscription: &EntityPath, rule: &Rule) -> Result<(), ManageError> {
        Self::create_rule(self, subscription.as_str(), rule).await
    }

    async fn delete_rule(&self, subscription: &EntityPath, name: &str) -> Result<(), ManageError> {
        Self::delete_rule(self, subscription.as_str(), name).await
    }

    /// Returns `NotSupported`: AMQP 0-9-1 does not list bindings.
    async fn rules(&self, _: &EntityPath) -> Result<Vec<Rule>, ManageError> {
        Err(crate::administration::unlisted("rules"))
    }
}

impl From<RabbitMq> for DynTransport {
    fn from(rabbit: RabbitMq) -> Self {
        Self::builder(rabbit.clone())
            .schedule()
            .sessions()
            .administration()
            .extension(DynRules::new(rabbit.clone()))
            .extension(rabbit)
            .build()
    }
}
