use std::{future::Future, sync::Arc, time::Duration};

use consign_core::{
    Message,
    message::{EntityPath, SequenceNumber},
    time::Timestamp,
    transport::{
        Capabilities, Delivery, DynTransport, ErrorKind, Lease, ManageError, PeekMessages, PurgeMessages,
        ReceiveDeferred, ReceiveError, ReceiveMode, ScheduleMessages, SendError, ServerAddress, Sessions,
        TransactionError, Transactions, Transport,
    },
};

use crate::{
    Options, ServiceBusLease, ServiceBusReceiver, ServiceBusSender, ServiceBusSession, ServiceBusSessions,
    ServiceBusTransaction, TokenCredential,
    capabilities::CAPABILITIES,
    core::Core,
    endpoint::Endpoint,
    error::Failure,
    management::Locked,
    receiver::{ByToken, Mode, Source, duration},
    retry::Effect,
    sender::refused,
    wire,
};

/// A namespace of Azure Service Bus, or another server of its protocol. Clones share one connection.
#[derive(Clone)]
pub struct ServiceBus {
    pub(crate) core: Arc<Core>,
}

/// The most messages that the service removes at a time.
const MAX_DELETED: usize = 4_000;

/// How far the clocks of client and server may differ for a purge of everything.
const SKEW: Duration = Duration::from_secs(5 * 60);

impl ServiceBus {
    /// Returns the default options.
    pub fn options() -> Options {
        Options::default()
    }

    /// Connects by a [connection string](crate::ConnectionString) with the default options: [`Options::connect`].
    ///
    /// # Errors
    ///
    /// Those of [`Options::connect`].
    pub async fn connect(connection_string: &str) -> Result<Self, ManageError> {
        Self::options().connect(connection_string).await
    }

    pub(crate) async fn open(
        options: Options,
        endpoint: Endpoint,
        credential: Arc<dyn TokenCredential>,
    ) -> Result<Self, Failure> {
        let core = Core::new(options, endpoint, credential)?;
        core.wire().await?;
        Ok(Self { core })
    }

    /// Closes the connection. The next call opens another one: for tests of lost connections, and after a change of the network.
    /// Sessions are lost; other locks hold as long as the server holds them.
    ///
    /// # Errors
    ///
    /// Those of the connection. It is closed all the same.
    pub async fn disconnect(&self) -> Result<(), ManageError> {
        Ok(self.core.disconnect().await?)
    }
}

impl std::fmt::Debug for ServiceBus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServiceBus").field("host", &self.core.endpoint.host).finish_non_exhaustive()
    }
}

impl Transport for ServiceBus {
    type Sender = ServiceBusSender;
    type Lease = ServiceBusLease;
    type Receiver = ServiceBusReceiver;

    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn server(&self) -> Option<ServerAddress> {
        Some(ServerAddress::new(self.core.endpoint.host.as_str()).with_port(self.core.endpoint.port))
    }

    async fn sender(&self, path: &EntityPath) -> Result<ServiceBusSender, SendError> {
        if path.is_sub_queue() {
            let detail = "only dead-lettering sends to a sub-queue";
            return Err(SendError::new(ErrorKind::InvalidOperation).with_detail(detail));
        }
        let sender = ServiceBusSender::new(&self.core, path.clone());
        sender.opened().await?;
        Ok(sender)
    }

    async fn receiver(&self, path: &EntityPath, mode: ReceiveMode) -> Result<ServiceBusReceiver, ReceiveError> {
        let mode = match mode {
            ReceiveMode::PeekLock => Mode::PeekLock,
            ReceiveMode::ReceiveAndDelete => Mode::ReceiveAndDelete,
        };
        Ok(ServiceBusReceiver::open(Source::new(&self.core, path.clone(), mode)).await?)
    }

    /// Begins a session and ends it. It sends no token, so the rights of its credential are not checked.
    async fn ping(&self) -> Result<(), ManageError> {
        Ok(self.core.ping().await?)
    }

    async fn close(&self) -> Result<(), ManageError> {
        Ok(self.core.close().await?)
    }
}

impl PeekMessages for ServiceBus {
    async fn peek(&self, path: &EntityPath, from: SequenceNumber, max: usize) -> Result<Vec<Message>, ReceiveError> {
        if max == 0 {
            return Ok(Vec::new());
        }
        let peeking = self
            .core
            .manage(path, Effect::Repeatable, |management| async move { management.peek(from, max, None).await });
        let source = Source::new(&self.core, path.clone(), Mode::PeekLock);
        Ok(peeked(&source, peeking.await?))
    }
}

/// Returns peeked messages as the application sees them.
pub(crate) fn peeked(source: &Source, messages: Vec<wire::Read>) -> Vec<Message> {
    messages.into_iter().map(|(message, unreadable)| source.message(message, unreadable)).collect()
}

impl ScheduleMessages for ServiceBus {
    async fn schedule(
        &self,
        path: &EntityPath,
        messages: Vec<Message>,
        at: Timestamp,
    ) -> Result<Vec<SequenceNumber>, SendError> {
        let now = self.core.now();
        let lacks_session = messages.iter().any(|message| message.session_id().is_none());
        let entries = messages.into_iter().map(|message| wire::scheduled(message, at, now));
        let entries = &entries.collect::<Result<Vec<_>, _>>()?;
        if entries.is_empty() {
            return Ok(Vec::new());
        }
        let scheduling = self
            .core
            .manage(path, Effect::Once, |management| async move { management.schedule(entries.clone(), None).await });
        scheduling.await.map_err(|failure| refused(failure, lacks_session))
    }

    async fn cancel_scheduled(&self, path: &EntityPath, numbers: &[SequenceNumber]) -> Result<(), SendError> {
        if numbers.is_empty() {
            return Ok(());
        }
        let cancelling = self
            .core
            .manage(path, Effect::Once, |management| async move { management.cancel_scheduled(numbers).await });
        Ok(cancelling.await?)
    }
}

impl ReceiveDeferred for ServiceBus {
    async fn receive_deferred(
        &self,
        path: &EntityPath,
        numbers: &[SequenceNumber],
    ) -> Result<Vec<Delivery<ServiceBusLease>>, ReceiveError> {
        if numbers.is_empty() {
            return Ok(Vec::new());
        }
        let (core, path, numbers) = (Arc::clone(&self.core), path.clone(), numbers.to_vec());
        let receiving = async move {
            let numbers = &numbers[..];
            let locked = core.manage(&path, Effect::Once, |management| async move {
                management.receive_deferred(numbers, None).await
            });
            let locked = locked.await?;
            Ok(deferred(&Source::new(&core, path, Mode::PeekLock), locked))
        };
        Ok(unless_dropped(receiving).await?)
    }
}

/// Returns deferred messages with their leases.
pub(crate) fn deferred(source: &Source, locked: Vec<Locked>) -> Vec<Delivery<ServiceBusLease>> {
    let delivery = |Locked { token, read: (message, unreadable) }| {
        let message = source.message(message, unreadable);
        let until = message.received().and_then(|received| received.locked_until);
        let lease = match token {
            None => ServiceBusLease::removed(),
            Some(token) => ServiceBusLease::by_token(ByToken {
                core: Arc::clone(&source.core),
                path: source.path.clone(),
                token,
                session: source.session.as_ref().map(|session| session.id.clone()),
                link: None,
                lock: duration(until, source.core.now()),
                is_deferred: true,
            }),
        };
        Delivery { message, lease }
    };
    locked.into_iter().map(delivery).collect()
}

/// Receives in a task: when the caller waits no longer, what is locked is released.
pub(crate) async fn unless_dropped(
    receiving: impl Future<Output = Result<Vec<Delivery<ServiceBusLease>>, Failure>> + Send + 'static,
) -> Result<Vec<Delivery<ServiceBusLease>>, Failure> {
    let (answer, answered) = tokio::sync::oneshot::channel();
    tokio::spawn(async move {
        if let Err(Ok(deliveries)) = answer.send(receiving.await) {
            for delivery in deliveries {
                // The task of the settlement goes on.
                drop(delivery.lease.release());
            }
        }
    });
    answered.await.unwrap_or_else(|_| Err(Failure::new(ErrorKind::General, "the task of the receive has ended")))
}

impl PurgeMessages for ServiceBus {
    async fn purge(
        &self,
        path: &EntityPath,
        max: usize,
        accepted_before: Option<Timestamp>,
    ) -> Result<usize, ManageError> {
        let before = accepted_before.unwrap_or_else(|| self.core.now().saturating_add(SKEW));
        let mut purged = 0;
        while purged < max {
            let count = (max - purged).min(MAX_DELETED);
            let deleting = self.core.manage(path, Effect::Once, |management| async move {
                management.delete_messages(count, before).await
            });
            match deleting.await? {
                0 => break,
                deleted => purged += deleted,
            }
        }
        Ok(purged)
    }
}

impl Sessions for ServiceBus {
    type Session = ServiceBusSession;
    type SessionSource = ServiceBusSessions;

    async fn sessions(&self, path: &EntityPath) -> Result<ServiceBusSessions, ReceiveError> {
        Ok(ServiceBusSessions::open(&self.core, path).await?)
    }
}

impl Transactions for ServiceBus {
    type Transaction = ServiceBusTransaction;

    /// It does not call the server: the transaction is declared when it is committed.
    async fn begin(&self) -> Result<ServiceBusTransaction, TransactionError<ServiceBusLease>> {
        Ok(ServiceBusTransaction::new(&self.core))
    }
}

impl From<ServiceBus> for DynTransport {
    fn from(service_bus: ServiceBus) -> Self {
        let builder = Self::builder(service_bus.clone())
            .peek()
            .schedule()
            .receive_deferred()
            .purge()
            .sessions()
            .transactions()
            .extension(service_bus.clone());
        #[cfg(feature = "administration")]
        let builder = builder.administration().extension(consign_rules::DynRules::new(service_bus));
        builder.build()
    }
}

#[cfg(test)]
mod tests {
    use consign_amqp::mapping::Direction;
    use consign_conformance::log::Lines;

    use super::*;
    use crate::SharedAccessSignature;

    /// Rules: K-314.
    #[test]
    fn a_message_that_cannot_be_decoded_is_a_dead_letter_with_its_number() {
        let (lines, _guard) = Lines::capture();
        let options = ServiceBus::options();
        let endpoint = options.endpoint("localhost".to_owned(), None, false);
        let core = Core::new(options, endpoint, Arc::new(SharedAccessSignature::new("any"))).unwrap();
        let path = EntityPath::new("orders").unwrap().dead_letter();
        let source = Source::new(&core, path, Mode::PeekLock);
        let unreadable = |direction| wire::read(wire::unreadable(), direction);
        let fetched = deferred(&source, vec![Locked { token: None, read: unreadable(Direction::Deliver) }]);
        let mut messages = peeked(&source, vec![unreadable(Direction::Peek)]);
        messages.extend(fetched.into_iter().map(|delivery| delivery.message));
        for message in &messages {
            let received = message.received().unwrap();
            assert_eq!((received.sequence_number, received.dead_lettered), (SequenceNumber::new(7), true));
        }
        assert_eq!(messages.len(), 2);
        let warned = lines.of("consign::servicebus");
        assert!(warned.len() == 2 && warned[0].contains("cannot be decoded"), "{warned:?}");
    }
}
