use std::time::Duration;

use consign::message::EntityPath;

/// The settings of a queue. A setting that is `None` or at its default is left to the broker. For a setting that its broker
/// does not have a backend returns [`ErrorKind::NotSupported`](consign::transport::ErrorKind::NotSupported).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueSpec {
    /// How long a lock holds.
    pub lock_duration: Option<Duration>,
    /// How often a message is delivered before it is dead-lettered.
    pub max_delivery_count: Option<u32>,
    /// How long a message waits at most.
    pub time_to_live: Option<Duration>,
    /// Whether an expired message is dead-lettered.
    pub dead_letter_on_expiration: bool,
    /// Whether messages are received by session only.
    pub requires_session: bool,
    /// For how long a MessageId is remembered.
    pub duplicate_window: Option<Duration>,
    /// The entity to which every message is forwarded.
    pub forward_to: Option<EntityPath>,
    /// The entity to which every dead letter is forwarded.
    pub forward_dead_letters_to: Option<EntityPath>,
    /// The maximum of bytes in the queue.
    pub max_size: Option<u64>,
    /// The maximum bytes of a message.
    pub max_message_size: Option<usize>,
}

/// The settings of a topic; as [`QueueSpec`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopicSpec {
    /// How long a message waits at most.
    pub time_to_live: Option<Duration>,
    /// For how long a MessageId is remembered.
    pub duplicate_window: Option<Duration>,
}

/// The settings of a subscription; as [`QueueSpec`]. It begins with a rule that matches every message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubscriptionSpec {
    /// How long a lock holds.
    pub lock_duration: Option<Duration>,
    /// How often a message is delivered before it is dead-lettered.
    pub max_delivery_count: Option<u32>,
    /// How long a message waits at most.
    pub time_to_live: Option<Duration>,
    /// Whether an expired message is dead-lettered.
    pub dead_letter_on_expiration: bool,
    /// Whether a message for which a rule fails is dead-lettered; by default it is dropped.
    pub dead_letter_on_filter_error: bool,
    /// Whether messages are received by session only.
    pub requires_session: bool,
    /// The entity to which every message is forwarded.
    pub forward_to: Option<EntityPath>,
}

/// A rule of a subscription: which messages it matches, and how it changes their copies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleSpec {
    /// The name, unique in its subscription.
    pub name: &'static str,
    /// The filter for messages.
    pub filter: Filter,
    /// SQL statements that change the copy.
    pub action: Option<&'static str>,
}

impl RuleSpec {
    /// The name of the rule that a new subscription has.
    pub const DEFAULT: &'static str = "$Default";

    /// A rule without an action.
    #[must_use]
    pub const fn new(name: &'static str, filter: Filter) -> Self {
        Self { name, filter, action: None }
    }

    /// A rule whose filter is an SQL expression.
    #[must_use]
    pub const fn sql(name: &'static str, expression: &'static str) -> Self {
        Self::new(name, Filter::Sql(expression))
    }

    /// This rule with an action.
    #[must_use]
    pub const fn with_action(mut self, statements: &'static str) -> Self {
        self.action = Some(statements);
        self
    }
}

/// Which messages a rule matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filter {
    /// All of them.
    True,
    /// None.
    False,
    /// Those whose properties equal all of these.
    Correlation(Correlation),
    /// Those for which the expression is true.
    Sql(&'static str),
}

/// What a correlation filter compares. A field that is `None` is not compared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Correlation {
    /// `ContentType`.
    pub content_type: Option<&'static str>,
    /// `CorrelationId`.
    pub correlation_id: Option<&'static str>,
    /// The subject, also known as Label.
    pub subject: Option<&'static str>,
    /// `MessageId`.
    pub message_id: Option<&'static str>,
    /// `ReplyTo`.
    pub reply_to: Option<&'static str>,
    /// `ReplyToSessionId`.
    pub reply_to_session_id: Option<&'static str>,
    /// `SessionId`.
    pub session_id: Option<&'static str>,
    /// `To`.
    pub to: Option<&'static str>,
    /// User properties of the type text.
    pub properties: Vec<(&'static str, &'static str)>,
}

/// The open directions of an entity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Status {
    /// Both.
    #[default]
    Active,
    /// Neither.
    Disabled,
    /// Receiving only.
    SendDisabled,
    /// Sending only.
    ReceiveDisabled,
}

/// The receive mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// A message is locked until it is settled or the lock runs out.
    #[default]
    PeekLock,
    /// A message is removed as it is delivered.
    ReceiveAndDelete,
}

/// How many messages an entity holds, by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages that can be received or are locked.
    pub active: usize,
    /// Deferred messages.
    pub deferred: usize,
    /// Scheduled messages.
    pub scheduled: usize,
    /// Messages in the dead-letter sub-queue.
    pub dead_lettered: usize,
}
