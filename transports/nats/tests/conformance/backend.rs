//! JetStream as the suite sees it.

use std::time::Duration;

use bytes::Bytes;
use consign::{
    Disposition, Message,
    message::{EntityPath, SequenceNumber},
    rules::ManageRules,
    time::{Clock, SystemClock, Timestamp},
    transport::{
        Capabilities, Capability, Delivery, Lease, ManageError, PeekMessages, PurgeMessages, ReceiveDeferred,
        ReceiveError, ReceiveMode, SendError, Session, SettleError, Transport,
    },
};
use consign_conformance::{
    Backend, Mode, NoCall, NoTransaction, Process, QueueSpec, RuleSpec, SubscriptionSpec, Timing, TopicSpec, settings,
};
use consign_nats::{
    CAPABILITIES, Nats, NatsLease, NatsReceiver, NatsSender, NatsSession, Options, QueueSettings, SubscriptionSettings,
    TopicSettings,
};

/// Two connections to one server.
pub(crate) struct JetStream {
    url: String,
    nats: Nats,
    other: Nats,
    clock: SystemClock,
    /// Whether a queue may have a size. The suite's has its dead letters in it, and the server's has not.
    takes_size: bool,
}

impl JetStream {
    /// One connection only.
    #[allow(dead_code, reason = "one of two test binaries needs it")]
    pub(crate) fn single(nats: Nats) -> Self {
        Self { url: String::new(), other: nats.clone(), nats, clock: SystemClock::new(), takes_size: true }
    }

    #[allow(dead_code, reason = "one of two test binaries needs it")]
    pub(crate) async fn connect(url: &str) -> Self {
        let (nats, other) = (options().connect(url).await, options().connect(url).await);
        let connected = "the server that the tests want";
        let (nats, other) = (nats.expect(connected), other.expect(connected));
        Self { url: url.to_owned(), nats, other, clock: SystemClock::new(), takes_size: false }
    }
}

fn options() -> Options {
    Nats::options().namespace("conformance").server_syncs()
}

/// No setting of this transport says it.
fn absent<T>(asked: Option<T>, missing: &'static str) -> Result<(), ManageError> {
    asked.map_or(Ok(()), |_| Err(NoCall::new(missing).into()))
}

const NO_TIME_TO_LIVE: &str = "the settings have no time to live of messages";
const NO_EXPIRED: &str = "the settings have no dead letters of expired messages";
const NO_FORWARDING: &str = "the settings have no forwarding";

fn queue(spec: &QueueSpec) -> Result<QueueSettings, ManageError> {
    absent(spec.time_to_live, NO_TIME_TO_LIVE)?;
    absent(spec.dead_letter_on_expiration.then_some(()), NO_EXPIRED)?;
    absent(spec.forward_to.as_ref(), NO_FORWARDING)?;
    absent(spec.forward_dead_letters_to.as_ref(), NO_FORWARDING)?;
    absent(spec.max_message_size, "the settings have no largest message")?;
    let mut settings = QueueSettings::default();
    settings.lock_duration = spec.lock_duration.unwrap_or(settings.lock_duration);
    settings.max_delivery_count = spec.max_delivery_count.unwrap_or(settings.max_delivery_count);
    settings.requires_session = spec.requires_session;
    settings.duplicate_detection = spec.duplicate_window;
    settings.max_bytes = spec.max_size;
    Ok(settings)
}

fn topic(spec: &TopicSpec) -> Result<TopicSettings, ManageError> {
    absent(spec.time_to_live, NO_TIME_TO_LIVE)?;
    let mut settings = TopicSettings::default();
    settings.duplicate_detection = spec.duplicate_window;
    Ok(settings)
}

fn subscription(spec: &SubscriptionSpec) -> Result<SubscriptionSettings, ManageError> {
    absent(spec.time_to_live, NO_TIME_TO_LIVE)?;
    absent(spec.dead_letter_on_expiration.then_some(()), NO_EXPIRED)?;
    absent(spec.forward_to.as_ref(), NO_FORWARDING)?;
    let mut settings = SubscriptionSettings::default();
    settings.lock_duration = spec.lock_duration.unwrap_or(settings.lock_duration);
    settings.max_delivery_count = spec.max_delivery_count.unwrap_or(settings.max_delivery_count);
    settings.dead_letter_on_filter_error = spec.dead_letter_on_filter_error;
    settings.requires_session = spec.requires_session;
    Ok(settings)
}

impl Backend for JetStream {
    type Sender = NatsSender;
    type Lease = NatsLease;
    type Receiver = Process<NatsReceiver>;
    type Session = NatsSession;
    type Transaction = NoTransaction<NatsLease>;

    fn name(&self) -> &'static str {
        "nats"
    }

    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn not_tested(&self) -> &'static [(Capability, &'static str)] {
        &[
            (Capability::DeadLetterOnExpiration, "no setting for it, as no message expires"),
            (Capability::CancelScheduled, "no call for it, as nothing is scheduled"),
            (Capability::AutoForward, "no setting for it"),
            (Capability::Transactions, "no call for it"),
            (Capability::LargeMessages, "no setting for it: the server's `max_payload` is for all"),
        ]
    }

    fn timing(&self) -> Timing {
        Timing::BUSY
    }

    async fn now(&self) -> Timestamp {
        self.clock.now().utc
    }

    async fn create_queue(&self, path: &EntityPath, spec: &QueueSpec) -> Result<(), ManageError> {
        if !self.takes_size {
            absent(spec.max_size, "the limit of a queue has its dead letters in it")?;
        }
        self.nats.create_queue(path.as_str(), queue(spec)?).await
    }

    async fn create_topic(&self, path: &EntityPath, spec: &TopicSpec) -> Result<(), ManageError> {
        self.nats.create_topic(path.as_str(), topic(spec)?).await
    }

    async fn create_subscription(&self, path: &EntityPath, spec: &SubscriptionSpec) -> Result<(), ManageError> {
        let (topic, name) = settings::parts(path)?;
        self.nats.create_subscription(topic, name, subscription(spec)?).await
    }

    async fn create_rule(&self, subscription: &EntityPath, rule: &RuleSpec) -> Result<(), ManageError> {
        ManageRules::create_rule(&self.nats, subscription, &settings::rule(rule)?).await
    }

    async fn delete_rule(&self, subscription: &EntityPath, name: &str) -> Result<(), ManageError> {
        ManageRules::delete_rule(&self.nats, subscription, name).await
    }

    async fn delete(&self, path: &EntityPath) -> Result<(), ManageError> {
        self.nats.delete(path.as_str()).await
    }

    async fn sender(&self, path: &EntityPath) -> Result<NatsSender, SendError> {
        self.nats.sender(path.as_str()).await
    }

    async fn receiver(&self, path: &EntityPath, mode: Mode) -> Result<Self::Receiver, ReceiveError> {
        let mode = match mode {
            Mode::PeekLock => ReceiveMode::PeekLock,
            Mode::ReceiveAndDelete => ReceiveMode::ReceiveAndDelete,
        };
        Ok(Process::here(Transport::receiver(&self.nats, path, mode).await?))
    }

    async fn receive_deferred(
        &self,
        path: &EntityPath,
        numbers: &[SequenceNumber],
    ) -> Result<Vec<Delivery<NatsLease>>, ReceiveError> {
        self.nats.receive_deferred(path, numbers).await
    }

    async fn peek(&self, path: &EntityPath, from: SequenceNumber, max: usize) -> Result<Vec<Message>, ReceiveError> {
        self.nats.peek(path, from, max).await
    }

    async fn purge(
        &self,
        path: &EntityPath,
        max: usize,
        accepted_before: Option<Timestamp>,
    ) -> Result<usize, ManageError> {
        self.nats.purge(path, max, accepted_before).await
    }

    async fn accept_session(&self, path: &EntityPath, id: &str) -> Result<NatsSession, ReceiveError> {
        self.nats.accept_session(path.as_str(), id).await
    }

    async fn session_state(&self, session: &mut NatsSession) -> Result<Option<Bytes>, SettleError> {
        session.state().await
    }

    async fn set_session_state(&self, session: &mut NatsSession, state: Option<Bytes>) -> Result<(), SettleError> {
        session.set_state(state).await
    }

    async fn receive_deferred_of(
        &self,
        session: &mut NatsSession,
        numbers: &[SequenceNumber],
    ) -> Result<Vec<Delivery<NatsLease>>, ReceiveError> {
        session.receive_deferred(numbers).await
    }

    async fn peek_of(&self, session: &mut NatsSession, max: usize) -> Result<Vec<Message>, ReceiveError> {
        session.peek(max).await
    }

    async fn accept_next_session(&self, path: &EntityPath, wait: Duration) -> Result<NatsSession, ReceiveError> {
        self.nats.session_acceptor(path.as_str()).await?.accept_next_within(wait).await
    }

    async fn settle_elsewhere(
        &self,
        _: &EntityPath,
        lease: NatsLease,
        disposition: Disposition,
    ) -> Result<(), SettleError> {
        lease.over(&self.other).settle(disposition).await
    }

    async fn separate_receiver(&self, path: &EntityPath) -> Result<Self::Receiver, ReceiveError> {
        let (url, path) = (self.url.clone(), path.clone());
        Process::start(async move {
            let nats = options().connect(&url).await;
            let nats = nats.map_err(|error| ReceiveError::new(error.kind()).with_source(error))?;
            nats.receiver(path.as_str()).await
        })
        .await
    }

    /// The server does nothing when a connection ends, so there is nothing to wait for.
    async fn disconnect(&self, receiver: Self::Receiver, held: Vec<Delivery<NatsLease>>) -> Result<(), ReceiveError> {
        receiver.kill(held).await
    }
}
