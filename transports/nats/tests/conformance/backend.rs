//! JetStream as the suite sees it.

use std::time::Duration;

use consign::{
    Disposition,
    message::EntityPath,
    time::{Clock, SystemClock, Timestamp},
    transport::{Capabilities, Capability, Lease, ManageError, ReceiveError, SettleError, Unsupported},
};
use consign_conformance::{Backend, NoTransaction, QueueSpec, SubscriptionSpec, Timing, TopicSpec, settings};
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

    consign_conformance::client_methods!(nats);

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
}
