use std::{
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use consign::{
    Disposition, Message,
    message::{EntityPath, SequenceNumber},
    rules::Rule,
    time::{Clock, SystemClock, Timestamp},
    transport::{
        self, Capabilities, Capability, Delivery, ManageError, ReceiveError, SendError, Session as _, SettleError,
    },
};
use consign_conformance::{
    Backend, Mode, NoCall, NoTransaction, QueueSpec, RuleSpec, SubscriptionSpec, Timing, TopicSpec, settings,
};
use consign_rabbitmq::{
    QueueSettings, RabbitMq, RabbitMqLease, RabbitMqReceiver, RabbitMqSender, RabbitMqSession, TopicSettings,
};

use super::{Options, delete_delays, options, unique};

/// RabbitMQ as the suite sees it.
pub(crate) struct Rabbit {
    client: RabbitMq,
    clock: SystemClock,
    delays: String,
    /// Whether it is on one connection, and a queue may have a limit that counts no dead letters.
    is_single: bool,
}

/// A receiver on a connection of its own, which can be broken.
pub(crate) struct Alone {
    receiver: RabbitMqReceiver,
    rabbit: Arc<RabbitMq>,
}

impl transport::Receiver for Alone {
    type Lease = RabbitMqLease;

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<RabbitMqLease>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        self.receiver.poll_receive(cx, max, out)
    }

    fn stop(&mut self) {
        self.receiver.stop();
    }

    fn capabilities(&self) -> transport::Capabilities {
        self.receiver.capabilities()
    }

    fn entity_info(&self) -> transport::EntityInfo {
        self.receiver.entity_info()
    }
}

impl Rabbit {
    pub(crate) async fn connect() -> Option<Self> {
        let delays = unique("delays");
        let client = super::connect(options().delays(delays.clone())).await?;
        Some(Self { client, clock: SystemClock::new(), delays, is_single: false })
    }

    /// On one connection.
    pub(crate) async fn single(options: Options, address: &str) -> Result<Self, ManageError> {
        let client = options.connect(address).await?;
        Ok(Self { client, clock: SystemClock::new(), delays: String::new(), is_single: true })
    }

    pub(crate) async fn clean_up(&self) {
        delete_delays(&self.delays).await;
        self.client.close().await;
    }
}

/// Few, for each is two quorum queues.
const SLOTS: u16 = 3;

fn queue(spec: &QueueSpec, is_single: bool) -> Result<QueueSettings, ManageError> {
    let absent = [
        (spec.duplicate_window.is_some(), "the settings have no detection of duplicates"),
        (spec.forward_to.is_some(), "the settings have no forwarding"),
        (spec.forward_dead_letters_to.is_some(), "the settings have no forwarding"),
        (spec.max_size.is_some() && !is_single, "the limit of a queue counts no dead letters"),
    ];
    if let Some((_, missing)) = absent.into_iter().find(|(is_asked, _)| *is_asked) {
        return Err(NoCall::new(missing).into());
    }
    let mut settings = QueueSettings::default();
    settings.lock_duration = spec.lock_duration.unwrap_or(settings.lock_duration);
    settings.max_delivery_count = spec.max_delivery_count.unwrap_or(settings.max_delivery_count);
    settings.default_time_to_live = spec.time_to_live;
    settings.dead_letter_on_expiration = spec.dead_letter_on_expiration;
    settings.max_message_size = spec.max_message_size;
    settings.max_length_bytes = spec.max_size;
    settings.requires_session = spec.requires_session;
    settings.session_slots = SLOTS;
    Ok(settings)
}

/// A rule that a program can make: one whose expression cannot be read never gets to the transport.
fn rule(spec: &RuleSpec) -> Result<Rule, ManageError> {
    let has_expression = matches!(spec.filter, consign_conformance::Filter::Sql(_)) || spec.action.is_some();
    settings::rule(spec)
        .map_err(|error| if has_expression { NoCall::new("no rule can be made of it").into() } else { error })
}

impl Backend for Rabbit {
    type Sender = RabbitMqSender;
    type Lease = RabbitMqLease;
    type Receiver = Alone;
    type Session = RabbitMqSession;
    type Transaction = NoTransaction<RabbitMqLease>;

    fn name(&self) -> &'static str {
        "rabbitmq"
    }

    fn capabilities(&self) -> Capabilities {
        RabbitMq::CAPABILITIES
    }

    fn not_tested(&self) -> &'static [(Capability, &'static str)] {
        &[
            (Capability::SettleElsewhere, "no call for it"),
            (Capability::CancelScheduled, "no call for it"),
            (Capability::EnqueuedTime, "the time is the sender's: on one machine it is that of the broker"),
            (Capability::Peek, "no call for it"),
            (Capability::DuplicateDetection, "no setting for it"),
            (Capability::AutoForward, "no setting for it"),
            (Capability::Transactions, "no call for it"),
            (Capability::Purge, "no call for it"),
        ]
    }

    fn timing(&self) -> Timing {
        Timing::BUSY
    }

    async fn now(&self) -> Timestamp {
        self.clock.now().utc
    }

    async fn create_queue(&self, path: &EntityPath, spec: &QueueSpec) -> Result<(), ManageError> {
        self.client.create_queue(path.as_str(), queue(spec, self.is_single)?).await
    }

    async fn create_topic(&self, path: &EntityPath, spec: &TopicSpec) -> Result<(), ManageError> {
        if spec.duplicate_window.is_some() {
            return Err(NoCall::new("the settings have no detection of duplicates").into());
        }
        let mut settings = TopicSettings::default();
        settings.default_time_to_live = spec.time_to_live;
        self.client.create_topic(path.as_str(), settings).await
    }

    async fn create_subscription(&self, path: &EntityPath, spec: &SubscriptionSpec) -> Result<(), ManageError> {
        let (topic, name) = settings::parts(path)?;
        // No filter of this transport can fail on a message, so it does not matter what becomes of one on which one fails.
        let spec = QueueSpec {
            lock_duration: spec.lock_duration,
            max_delivery_count: spec.max_delivery_count,
            time_to_live: spec.time_to_live,
            dead_letter_on_expiration: spec.dead_letter_on_expiration,
            requires_session: spec.requires_session,
            forward_to: spec.forward_to.clone(),
            ..QueueSpec::default()
        };
        self.client.create_subscription(topic, name, queue(&spec, self.is_single)?).await.map(drop)
    }

    async fn create_rule(&self, subscription: &EntityPath, spec: &RuleSpec) -> Result<(), ManageError> {
        self.client.create_rule(subscription.as_str(), &rule(spec)?).await
    }

    async fn delete_rule(&self, subscription: &EntityPath, name: &str) -> Result<(), ManageError> {
        self.client.delete_rule(subscription.as_str(), name).await
    }

    async fn delete(&self, path: &EntityPath) -> Result<(), ManageError> {
        self.client.delete(path.as_str()).await
    }

    async fn sender(&self, path: &EntityPath) -> Result<RabbitMqSender, SendError> {
        self.client.sender(path.as_str())
    }

    async fn receiver(&self, path: &EntityPath, mode: Mode) -> Result<Alone, ReceiveError> {
        let rabbit = if self.is_single {
            self.client.clone()
        } else {
            let connecting = self.client.connect_again().await;
            connecting.map_err(|error| ReceiveError::new(error.kind()).with_source(error))?
        };
        let receiver = match mode {
            Mode::PeekLock => rabbit.receiver(path.as_str())?,
            Mode::ReceiveAndDelete => rabbit.receive_and_delete(path.as_str())?,
        };
        Ok(Alone { receiver, rabbit: Arc::new(rabbit) })
    }

    async fn schedule(
        &self,
        path: &EntityPath,
        messages: Vec<Message>,
        at: Timestamp,
    ) -> Result<Vec<SequenceNumber>, SendError> {
        self.client.sender(path.as_str())?.schedule(messages, at).await
    }

    async fn accept_session(&self, path: &EntityPath, id: &str) -> Result<RabbitMqSession, ReceiveError> {
        self.client.accept_session(path.as_str(), id).await
    }

    async fn accept_next_session(&self, path: &EntityPath, wait: Duration) -> Result<RabbitMqSession, ReceiveError> {
        self.client.session_acceptor(path.as_str())?.accept_next_within(wait).await
    }

    async fn session_state(&self, session: &mut RabbitMqSession) -> Result<Option<Bytes>, SettleError> {
        session.state().await
    }

    async fn set_session_state(&self, session: &mut RabbitMqSession, state: Option<Bytes>) -> Result<(), SettleError> {
        session.set_state(state).await
    }

    async fn disconnect(&self, receiver: Alone, held: Vec<Delivery<RabbitMqLease>>) -> Result<(), ReceiveError> {
        receiver.rabbit.close().await;
        drop(held);
        Ok(())
    }
}
