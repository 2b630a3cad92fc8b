use consign_core::{administration::Counts, time::Timestamp};

use super::{
    DocumentError, DocumentErrorKind as Kind, QueueDescription, RuleDescription, SubscriptionDescription,
    TopicDescription,
    fields::{Field, description},
    xml::{Element, namespace},
};

/// The description of an entity or a namespace.
#[expect(clippy::large_enum_variant, reason = "there are few at a time")]
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Description {
    /// A queue.
    Queue(QueueDescription),
    /// A topic.
    Topic(TopicDescription),
    /// A subscription.
    Subscription(SubscriptionDescription),
    /// A rule of a subscription.
    Rule(RuleDescription),
    /// The namespace.
    Namespace(NamespaceProperties),
}

impl Description {
    pub(super) fn read(element: &Element) -> Result<Self, DocumentError> {
        Ok(match &*element.name {
            "QueueDescription" => Self::Queue(QueueDescription::read(element)?),
            "TopicDescription" => Self::Topic(TopicDescription::read(element)?),
            "SubscriptionDescription" => Self::Subscription(SubscriptionDescription::read(element)?),
            "RuleDescription" => Self::Rule(RuleDescription::read(element)?),
            "NamespaceInfo" | "NamespaceProperties" => Self::Namespace(NamespaceProperties::read(element)?),
            other => return Err(DocumentError::of(Kind::Unexpected, other)),
        })
    }

    pub(super) fn write(&self) -> Element {
        match self {
            Self::Queue(queue) => queue.write(),
            Self::Topic(topic) => topic.write(),
            Self::Subscription(subscription) => subscription.write(),
            Self::Rule(rule) => rule.write(),
            Self::Namespace(namespace) => namespace.write(),
        }
    }
}

macro_rules! from {
    ($($type:ident => $variant:ident)*) => {$(
        impl From<$type> for Description {
            fn from(description: $type) -> Self {
                Self::$variant(description)
            }
        }
    )*};
}

from! {
    QueueDescription => Queue
    TopicDescription => Topic
    SubscriptionDescription => Subscription
    RuleDescription => Rule
    NamespaceProperties => Namespace
}

description! {
    /// The namespace, in the answer to `/$namespaceinfo`.
    NamespaceProperties = "NamespaceInfo" {
        /// `Alias`.
        alias: String = "Alias",
        /// `CreatedTime`.
        created_time: Timestamp = "CreatedTime",
        /// `MessagingSKU`: `Basic`, `Standard` or `Premium`.
        messaging_sku: String = "MessagingSKU",
        /// `MessagingUnits`, of a namespace that is `Premium`.
        messaging_units: u64 = "MessagingUnits",
        /// `ModifiedTime`.
        modified_time: Timestamp = "ModifiedTime",
        /// `Name`.
        name: String = "Name",
        /// `NamespaceType`, such as `Messaging`.
        namespace_type: String = "NamespaceType",
    }
}

/// The numbers of messages by state, of an entity that was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CountDetails {
    /// Messages that can be received, or are locked.
    pub active: u64,
    /// Messages in the dead-letter sub-queue.
    pub dead_lettered: u64,
    /// Messages that wait for their enqueue time.
    pub scheduled: u64,
    /// Messages in the transfer dead-letter sub-queue.
    pub transfer_dead_lettered: u64,
    /// Messages that wait to be forwarded.
    pub transfer: u64,
}

impl From<Counts> for CountDetails {
    fn from(counts: Counts) -> Self {
        Self {
            active: (counts.active + counts.locked + counts.deferred) as u64,
            dead_lettered: counts.dead_lettered as u64,
            scheduled: counts.scheduled as u64,
            transfer_dead_lettered: counts.transfer_dead_lettered as u64,
            transfer: 0,
        }
    }
}

impl CountDetails {
    /// Returns the number of all messages.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.active + self.dead_lettered + self.scheduled + self.transfer_dead_lettered + self.transfer
    }
}

impl Field for CountDetails {
    fn read(element: &Element) -> Result<Self, DocumentError> {
        let count = |name| {
            let child = element.child(name)?;
            child.filter(|child| !child.nil).map_or(Ok(0), u64::read)
        };
        Ok(Self {
            active: count("ActiveMessageCount")?,
            dead_lettered: count("DeadLetterMessageCount")?,
            scheduled: count("ScheduledMessageCount")?,
            transfer_dead_lettered: count("TransferDeadLetterMessageCount")?,
            transfer: count("TransferMessageCount")?,
        })
    }

    fn write(&self, name: &str) -> Element {
        // A client expects this to be the only attribute.
        let mut element = Element::new(name).attribute("xmlns:d2p1", namespace::COUNTS);
        for (name, count) in [
            ("d2p1:ActiveMessageCount", self.active),
            ("d2p1:DeadLetterMessageCount", self.dead_lettered),
            ("d2p1:ScheduledMessageCount", self.scheduled),
            ("d2p1:TransferDeadLetterMessageCount", self.transfer_dead_lettered),
            ("d2p1:TransferMessageCount", self.transfer),
        ] {
            element.push(count.write(name));
        }
        element
    }
}
