use std::{fmt, ops::Deref, sync::Arc};

use consign_core::{
    Message,
    administration::{Counts, EntityKind, SubscriptionSettings, TopicSettings},
    message::{EntityPath, SequenceNumber},
    time::Timestamp,
    transport::{ErrorKind, Escaped, ManageError, SendError},
};
use consign_rules::{Rule, RuleSet};

use super::{
    Acknowledged, Queue, QueueSender,
    engine::{Change, Engine, Now, Part, Source, StoreId},
    shared::Shared,
};

/// A topic of the embedded broker: a sent message is copied to each subscription whose rules match it.
///
/// ```
/// use consign::{
///     Message,
///     administration::{SubscriptionSettings, TopicSettings},
///     broker::Broker,
///     rules::{Rule, SqlFilter},
///     transport::{ReceiverExt, Sender},
/// };
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let broker = Broker::new();
/// let prices = broker.create_topic("prices", TopicSettings::default())?;
/// let large = Rule::new("large", SqlFilter::parse("amount > 1000")?)?;
/// let audit = prices.create_subscription_with("audit", SubscriptionSettings::default(), large)?;
///
/// prices.sender().send(Message::builder().property("amount", 5_000).build("one price")?).await?;
/// let delivery = audit.receiver().receive().await?;
/// delivery.complete().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Topic {
    pub(super) shared: Arc<Shared>,
    pub(super) store: StoreId,
    pub(super) path: EntityPath,
}

/// A subscription of a topic. It dereferences to a [`Queue`] to receive from.
#[derive(Clone)]
pub struct Subscription {
    queue: Queue,
    name: Box<str>,
}

impl Topic {
    /// Returns the path.
    #[must_use]
    pub fn path(&self) -> &EntityPath {
        &self.path
    }

    /// Creates a sender.
    #[must_use]
    pub fn sender(&self) -> QueueSender {
        QueueSender::new(Arc::clone(&self.shared), self.store, self.path.clone(), EntityKind::Topic)
    }

    /// Sends messages that are copied at `at`: [`QueueSender::schedule`]. They wait at the topic.
    pub fn schedule(&self, messages: Vec<Message>, at: Timestamp) -> Acknowledged<Vec<SequenceNumber>, SendError> {
        self.sender().schedule(messages, at)
    }

    /// Cancels scheduled messages: [`QueueSender::cancel_scheduled`].
    pub fn cancel_scheduled(&self, numbers: &[SequenceNumber]) -> Acknowledged<(), SendError> {
        self.sender().cancel_scheduled(numbers)
    }

    /// Returns up to `max` scheduled messages from sequence number `from` on; a topic holds no others.
    #[must_use]
    pub fn peek(&self, from: SequenceNumber, max: usize) -> Vec<Message> {
        self.peek_within(from, max, usize::MAX)
    }

    /// Returns scheduled messages as [`Topic::peek`] does, up to the one with which they have `max_bytes`:
    /// [`Queue::peek_within`](super::Queue::peek_within).
    #[must_use]
    pub fn peek_within(&self, from: SequenceNumber, max: usize, max_bytes: usize) -> Vec<Message> {
        self.shared.peek(self.store, Source::Part(Part::Main), from, max, max_bytes)
    }

    /// Returns the sub-queue of messages that this topic could not transfer in a transaction. A topic has no other.
    #[must_use]
    pub fn transfer_dead_letter(&self) -> Queue {
        let shared = Arc::clone(&self.shared);
        Queue { shared, store: self.store, part: Part::TransferDeadLetter, entity: self.path.clone() }
    }

    /// Returns the number of scheduled messages, and the bytes that the topic and its subscriptions hold.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.with(|engine, now| engine.counts(now, self.store, Part::Main))
    }

    /// Returns the settings. Errors: [`EntityNotFound`](ErrorKind::EntityNotFound).
    pub fn settings(&self) -> Result<TopicSettings, ManageError> {
        self.shared.check_open::<ManageError>()?;
        self.with(|engine, now| engine.topic_settings(now, self.store)).ok_or_else(|| self.missing())
    }

    /// Creates a subscription that gets every message, by a rule named `$Default`.
    ///
    /// Errors: [`InvalidArgument`](ErrorKind::InvalidArgument) for a name of more than 50 UTF-16 code units or with a
    /// character that a path must not have, or for a setting that breaks a rule.
    /// [`AlreadyExists`](ErrorKind::AlreadyExists). [`QuotaExceeded`](ErrorKind::QuotaExceeded) beyond
    /// [`Broker::MAX_SUBSCRIPTIONS`](super::Broker::MAX_SUBSCRIPTIONS) or
    /// [`Broker::MAX_ENTITIES`](super::Broker::MAX_ENTITIES). [`EntityNotFound`](ErrorKind::EntityNotFound) if the
    /// topic is deleted, or a forward names no entity. [`InvalidOperation`](ErrorKind::InvalidOperation) for a forward to a
    /// subscription, and for a forward of a subscription that requires sessions.
    pub fn create_subscription(&self, name: &str, settings: SubscriptionSettings) -> Result<Subscription, ManageError> {
        self.create(name, settings, None)
    }

    /// Does the same as [`Topic::create_subscription`], with a first rule of your own.
    #[expect(clippy::needless_pass_by_value, reason = "one that is refused is dropped here, where no lock is held")]
    pub fn create_subscription_with(
        &self,
        name: &str,
        settings: SubscriptionSettings,
        rule: Rule,
    ) -> Result<Subscription, ManageError> {
        self.create(name, settings, Some(&rule))
    }

    fn create(
        &self,
        name: &str,
        settings: SubscriptionSettings,
        rule: Option<&Rule>,
    ) -> Result<Subscription, ManageError> {
        self.settings()?;
        let path = self.path.subscription_of(name)?;
        let change = Change::Subscription(settings);
        let store = self.with(|engine, now| engine.create(now, path.clone(), change, rule.cloned()))?;
        Ok(self.handle(store, path, name))
    }

    /// Returns the subscription of this name with these settings, and creates it if it does not exist, as
    /// [`Topic::create_subscription`] does. The rules of an existing one stay. Errors: those of its creation. Here
    /// [`AlreadyExists`](ErrorKind::AlreadyExists) means that a setting, which the error names, differs:
    /// [`Topic::update_subscription`] changes it.
    pub fn declare_subscription(
        &self,
        name: &str,
        settings: SubscriptionSettings,
    ) -> Result<Subscription, ManageError> {
        self.declare(name, settings, None)
    }

    /// Does the same as [`Topic::declare_subscription`], with a first rule of your own. An existing subscription must
    /// have that rule, besides any others: otherwise it is [`AlreadyExists`](ErrorKind::AlreadyExists) too.
    #[expect(clippy::needless_pass_by_value, reason = "one that is refused is dropped here, where no lock is held")]
    pub fn declare_subscription_with(
        &self,
        name: &str,
        settings: SubscriptionSettings,
        rule: Rule,
    ) -> Result<Subscription, ManageError> {
        self.declare(name, settings, Some(&rule))
    }

    fn declare(
        &self,
        name: &str,
        settings: SubscriptionSettings,
        rule: Option<&Rule>,
    ) -> Result<Subscription, ManageError> {
        self.settings()?;
        let path = self.path.subscription_of(name)?;
        let change = Change::Subscription(settings);
        let (store, path) = self.with(|engine, now| engine.declare(now, path, change, rule.cloned()))?;
        let name = path.subscription().map_or(name, |(_, name)| name).to_owned();
        Ok(self.handle(store, path, &name))
    }

    /// Changes the settings of a subscription. Errors: those of its creation, and
    /// [`InvalidOperation`](ErrorKind::InvalidOperation) for a setting that is fixed.
    pub fn update_subscription(&self, name: &str, settings: SubscriptionSettings) -> Result<(), ManageError> {
        let subscription = self.subscription(name)?;
        self.shared.update(subscription.queue.store, Change::Subscription(settings))
    }

    /// Returns the subscription of this name; case does not matter. Errors:
    /// [`InvalidArgument`](ErrorKind::InvalidArgument), [`EntityNotFound`](ErrorKind::EntityNotFound).
    pub fn subscription(&self, name: &str) -> Result<Subscription, ManageError> {
        self.settings()?;
        let path = self.path.subscription_of(name)?;
        let found = self.with(|engine, now| engine.find(now, &path.key()));
        match found {
            Some((store, EntityKind::Subscription, path)) => {
                let name = path.subscription().map_or(name, |(_, name)| name).to_owned();
                Ok(self.handle(store, path, &name))
            }
            _ => Err(ManageError::new(ErrorKind::EntityNotFound).with_detail(path.to_string())),
        }
    }

    /// Returns the names of the subscriptions, in order.
    #[must_use]
    pub fn subscriptions(&self) -> Vec<String> {
        self.with(|engine, now| engine.subscriptions(now, self.store))
    }

    fn handle(&self, store: StoreId, entity: EntityPath, name: &str) -> Subscription {
        let queue = Queue { shared: Arc::clone(&self.shared), store, part: Part::Main, entity };
        Subscription { queue, name: name.into() }
    }

    fn with<T>(&self, command: impl FnOnce(&mut Engine, Now) -> T) -> T {
        let now = self.shared.now();
        self.shared.with(|state| command(&mut state.engine, now))
    }

    fn missing(&self) -> ManageError {
        ManageError::new(ErrorKind::EntityNotFound).with_detail(self.path.to_string())
    }
}

impl Subscription {
    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the queue to receive from.
    #[must_use]
    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    /// Returns the settings. Errors: [`EntityNotFound`](ErrorKind::EntityNotFound).
    pub fn subscription_settings(&self) -> Result<SubscriptionSettings, ManageError> {
        self.queue.shared.check_open::<ManageError>()?;
        let (now, store) = (self.queue.shared.now(), self.queue.store);
        let settings = self.queue.shared.with(|state| state.engine.subscription_settings(now, store));
        settings.ok_or_else(|| ManageError::new(ErrorKind::EntityNotFound).with_detail(self.queue.entity.to_string()))
    }

    /// Adds a rule. Errors: [`AlreadyExists`](ErrorKind::AlreadyExists), [`QuotaExceeded`](ErrorKind::QuotaExceeded) beyond
    /// the limits of a [`RuleSet`](consign_rules::RuleSet), [`EntityNotFound`](ErrorKind::EntityNotFound).
    #[expect(clippy::needless_pass_by_value, reason = "one that is refused is dropped here, where no lock is held")]
    pub fn create_rule(&self, rule: Rule) -> Result<(), ManageError> {
        self.queue.shared.check_open::<ManageError>()?;
        let (now, store) = (self.queue.shared.now(), self.queue.store);
        let created = self.queue.shared.with(|state| {
            state.engine.change_rules(now, store, |rules| rules.create(rule.clone().with_created(now.utc)))
        });
        created.map_err(|error| self.of_rule(rule.name(), error))
    }

    /// Adds a rule, unless the same rule exists. Errors: those of [`Subscription::create_rule`]. Here
    /// [`AlreadyExists`](ErrorKind::AlreadyExists) means that a rule of this name has another filter or action, by
    /// its text.
    #[expect(clippy::needless_pass_by_value, reason = "one that is refused is dropped here, where no lock is held")]
    pub fn declare_rule(&self, rule: Rule) -> Result<(), ManageError> {
        self.queue.shared.check_open::<ManageError>()?;
        let (now, store) = (self.queue.shared.now(), self.queue.store);
        self.queue.shared.with(|state| state.engine.declare_rule(now, store, &rule))
    }

    /// Removes a rule. Without any rule the subscription gets no message. Errors:
    /// [`EntityNotFound`](ErrorKind::EntityNotFound).
    pub fn delete_rule(&self, name: &str) -> Result<Rule, ManageError> {
        self.queue.shared.check_open::<ManageError>()?;
        let (now, store) = (self.queue.shared.now(), self.queue.store);
        let removed = self.queue.shared.with(|state| state.engine.change_rules(now, store, |rules| rules.remove(name)));
        removed.map_err(|error| self.of_rule(name, error))
    }

    /// Returns the same error with the subscription and the rule.
    #[cold]
    fn of_rule(&self, rule: &str, error: ManageError) -> ManageError {
        let place = format!("{}: rule {}", self.queue.path(), Escaped(rule));
        error.map_detail(move |detail| match detail {
            Some(detail) => format!("{place}: {detail}"),
            None => place,
        })
    }

    /// Returns the rules, by name.
    #[must_use]
    pub fn rules(&self) -> Vec<Rule> {
        self.of_rules(|rules| rules.iter().cloned().collect())
    }

    /// Returns the rules of a page: by name, at most `top` after the first `skip`. It copies no others.
    #[must_use]
    pub fn rules_page(&self, skip: usize, top: usize) -> Vec<Rule> {
        self.of_rules(|rules| rules.iter().skip(skip).take(top).cloned().collect())
    }

    /// Returns the number of rules.
    #[must_use]
    pub fn rule_count(&self) -> usize {
        self.of_rules(RuleSet::len)
    }

    /// Returns the rule of that name, in any case.
    #[must_use]
    pub fn rule(&self, name: &str) -> Option<Rule> {
        self.of_rules(|rules| rules.get(name).cloned())
    }

    fn of_rules<T: Default>(&self, of: impl FnOnce(&RuleSet) -> T) -> T {
        let (now, store) = (self.queue.shared.now(), self.queue.store);
        self.queue.shared.with(|state| state.engine.of_rules(now, store, of))
    }
}

impl Deref for Subscription {
    type Target = Queue;

    fn deref(&self) -> &Queue {
        &self.queue
    }
}

impl fmt::Debug for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Topic").field("path", &self.path).finish_non_exhaustive()
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").field("path", &self.queue.entity).finish_non_exhaustive()
    }
}
