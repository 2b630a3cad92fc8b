//! JetStream as the suite sees it.

use std::time::Duration;

use bytes::Bytes;
use consign::{
    Disposition, Message,
    message::{EntityPath, SequenceNumber},
    time::{Clock, SystemClock, Timestamp},
    transport::{
        Capabilities, Capability, Delivery, Lease, ManageError, ReceiveError, SendError, SettleError, Unsupported,
    },
};
use consign_conformance::{
    Backend, Mode, NoTransaction, QueueSpec, RuleSpec, SubscriptionSpec, Timing, TopicSpec, settings,
};
use consign_nats::{
    CAPABILITIES, Nats, NatsLease, NatsReceiver, NatsSender, NatsSession, QueueSettings, SubscriptionSettings,
    TopicSettings,
};

/// Two connections to one server.
pub(crate) struct JetStream {
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
        Self { other: nats.clone(), nats, clock: SystemClock::new(), takes_size: true }
    }

    #[allow(dead_code, reason = "one of two test binaries needs it")]
    pub(crate) async fn connect(url: &str) -> Self {
        let options = || Nats::options().namespace("conformance").server_syncs();
        let (nats, other) = (options().connect(url).await, options().connect(url).await);
        let connected = "the server that the tests want";
        let (nats, other) = (nats.expect(connected), other.expect(connected));
        Self { nats, other, clock: SystemClock::new(), takes_size: false }
    }
}

fn refuse<T>(asked: Option<T>, capability: Capability) -> Result<(), ManageError> {
    asked.map_or(Ok(()), |_| Err(Unsupported::new(capability).into()))
}

fn queue(spec: &QueueSpec) -> Result<QueueSettings, ManageError> {
    refuse(spec.time_to_live, Capability::TimeToLive)?;
    refuse(spec.dead_letter_on_expiration.then_some(()), Capability::DeadLetterOnExpiration)?;
    refuse(spec.forward_to.as_ref(), Capability::AutoForward)?;
    refuse(spec.forward_dead_letters_to.as_ref(), Capability::AutoForward)?;
    refuse(spec.max_message_size, Capability::LargeMessages)?;
    let mut settings = QueueSettings::default();
    settings.lock_duration = spec.lock_duration.unwrap_or(settings.lock_duration);
    settings.max_delivery_count = spec.max_delivery_count.unwrap_or(settings.max_delivery_count);
    settings.requires_session = spec.requires_session;
    settings.duplicate_detection = spec.duplicate_window;
    settings.max_bytes = spec.max_size;
    Ok(settings)
}

fn topic(spec: &TopicSpec) -> Result<TopicSettings, ManageError> {
    refuse(spec.time_to_live, Capability::TimeToLive)?;
    let mut settings = TopicSettings::default();
    settings.duplicate_detection = spec.duplicate_window;
    Ok(settings)
}

fn subscription(spec: &SubscriptionSpec) -> Result<SubscriptionSettings, ManageError> {
    refuse(spec.time_to_live, Capability::TimeToLive)?;
    refuse(spec.dead_letter_on_expiration.then_some(()), Capability::DeadLetterOnExpiration)?;
    refuse(spec.forward_to.as_ref(), Capability::AutoForward)?;
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
    type Receiver = NatsReceiver;
    type Session = NatsSession;
    type Transaction = NoTransaction<NatsLease>;

    fn name(&self) -> &'static str {
        "nats"
    }

    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn timing(&self) -> Timing {
        Timing::BUSY
    }

    async fn now(&self) -> Timestamp {
        self.clock.now().utc
    }

    async fn create_queue(&self, path: &EntityPath, spec: &QueueSpec) -> Result<(), ManageError> {
        if !self.takes_size {
            refuse(spec.max_size, Capability::LargeMessages)?;
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
        let (topic, name) = settings::parts(subscription)?;
        self.nats.create_rule(topic, name, &settings::rule(rule)?).await
    }

    async fn delete_rule(&self, subscription: &EntityPath, name: &str) -> Result<(), ManageError> {
        let (topic, subscription) = settings::parts(subscription)?;
        self.nats.delete_rule(topic, subscription, name).await
    }

    async fn delete(&self, path: &EntityPath) -> Result<(), ManageError> {
        self.nats.delete(path.as_str()).await
    }

    async fn sender(&self, path: &EntityPath) -> Result<NatsSender, SendError> {
        self.nats.sender(path.as_str()).await
    }

    async fn receiver(&self, path: &EntityPath, mode: Mode) -> Result<NatsReceiver, ReceiveError> {
        match mode {
            Mode::PeekLock => self.nats.receiver(path.as_str()).await,
            Mode::ReceiveAndDelete => self.nats.receive_and_delete(path.as_str()).await,
        }
    }

    async fn receive_deferred(
        &self,
        path: &EntityPath,
        numbers: &[SequenceNumber],
    ) -> Result<Vec<Delivery<NatsLease>>, ReceiveError> {
        self.nats.receive_deferred(path.as_str(), numbers).await
    }

    async fn peek(&self, path: &EntityPath, from: SequenceNumber, max: usize) -> Result<Vec<Message>, ReceiveError> {
        self.nats.peek(path.as_str(), from, max).await
    }

    async fn purge(
        &self,
        path: &EntityPath,
        max: usize,
        accepted_before: Option<Timestamp>,
    ) -> Result<usize, ManageError> {
        self.nats.purge(path.as_str(), max, accepted_before).await
    }

    async fn accept_session(&self, path: &EntityPath, id: &str) -> Result<NatsSession, ReceiveError> {
        self.nats.accept_session(path.as_str(), id).await
    }

    async fn accept_next_session(&self, path: &EntityPath, wait: Duration) -> Result<NatsSession, ReceiveError> {
        self.nats.session_acceptor(path.as_str()).await?.accept_next_within(wait).await
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

    async fn settle_elsewhere(
        &self,
        _: &EntityPath,
        lease: NatsLease,
        disposition: Disposition,
    ) -> Result<(), SettleError> {
        lease.over(&self.other).settle(disposition).await
    }

    async fn retry_after(
        &self,
        _: &EntityPath,
        delivery: Delivery<NatsLease>,
        delay: Duration,
    ) -> Result<(), SettleError> {
        delivery.lease.retry_after(delay).await
    }
}
