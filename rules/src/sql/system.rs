//! The properties of a message that have a name of their own.

use std::time::Duration;

use consign_core::{
    message::{Message, MessageState, PropertyValue},
    time::Timestamp,
};

use super::operand::Operand;

macro_rules! system {
    ($($(#[$doc:meta])* $name:ident $(| $alias:ident)* ;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum System {
            $($(#[$doc])* $name,)*
        }

        impl System {
            /// The property of that name, in any case.
            pub(super) fn parse(name: &str) -> Option<Self> {
                $(if [stringify!($name) $(, stringify!($alias))*].iter().any(|own| own.eq_ignore_ascii_case(name)) {
                    return Some(Self::$name);
                })*
                None
            }

            pub(super) fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }
        }
    };
}

system! {
    ContentType;
    CorrelationId;
    DeadLetterErrorDescription;
    DeadLetterReason;
    DeadLetterSource;
    DeliveryCount;
    EnqueuedSequenceNumber;
    EnqueuedTimeUtc;
    ExpiresAtUtc;
    LockToken;
    LockedUntilUtc;
    MessageId;
    PartitionKey;
    ReplyTo;
    ReplyToSessionId;
    ScheduledEnqueueTimeUtc;
    SequenceNumber;
    SessionId;
    State;
    Subject | Label;
    TimeToLive;
    To;
    ViaPartitionKey | TransactionPartitionKey;
}

impl System {
    /// Whether a sender, and so an action, sets it.
    pub(super) fn is_settable(self) -> bool {
        matches!(
            self,
            Self::ContentType
                | Self::CorrelationId
                | Self::MessageId
                | Self::PartitionKey
                | Self::ReplyTo
                | Self::ReplyToSessionId
                | Self::ScheduledEnqueueTimeUtc
                | Self::SessionId
                | Self::Subject
                | Self::TimeToLive
                | Self::To
                | Self::ViaPartitionKey
        )
    }

    /// Whether a message can be without it.
    pub(super) fn is_removable(self) -> bool {
        self.is_settable() && self != Self::MessageId
    }

    /// Its value; unknown where the message has none, and where the broker has set none yet.
    pub(super) fn of(self, message: &Message) -> Operand<'_> {
        let received = message.received();
        match self {
            Self::ContentType => text(message.content_type()),
            Self::CorrelationId => text(message.correlation_id()),
            Self::DeadLetterErrorDescription => text(message.dead_letter_description()),
            Self::DeadLetterReason => text(message.dead_letter_reason()),
            Self::DeadLetterSource => text(message.dead_letter_source()),
            Self::DeliveryCount => owned(received.map(|received| PropertyValue::I64(received.delivery_count.into()))),
            Self::EnqueuedSequenceNumber => {
                owned(received.map(|received| number(received.enqueued_sequence_number.get())))
            }
            Self::EnqueuedTimeUtc => instant(received.map(|received| received.enqueued_time)),
            Self::ExpiresAtUtc => instant(received.map(|received| received.expires_at)),
            // A message does not know its lock; who holds it does.
            Self::LockToken => Operand::Unknown,
            Self::LockedUntilUtc => instant(received.and_then(|received| received.locked_until)),
            Self::MessageId => text(message.message_id()),
            Self::PartitionKey => text(message.partition_key()),
            Self::ReplyTo => text(message.reply_to()),
            Self::ReplyToSessionId => text(message.reply_to_session_id()),
            Self::ScheduledEnqueueTimeUtc => instant(message.scheduled_enqueue_time()),
            Self::SequenceNumber => owned(received.map(|received| number(received.sequence_number.get()))),
            Self::SessionId => text(message.session_id()),
            Self::State => owned(received.map(|received| {
                PropertyValue::I64(match received.state {
                    MessageState::Active => 0,
                    MessageState::Deferred => 1,
                    MessageState::Scheduled => 2,
                })
            })),
            Self::Subject => text(message.subject()),
            Self::TimeToLive => owned(message.time_to_live().map(|span| PropertyValue::TimeSpan(ticks(span)))),
            Self::To => text(message.to()),
            Self::ViaPartitionKey => text(message.transaction_partition_key()),
        }
    }
}

fn text(value: Option<&str>) -> Operand<'_> {
    value.map_or(Operand::Unknown, Operand::Text)
}

fn owned(value: Option<PropertyValue>) -> Operand<'static> {
    value.map_or(Operand::Unknown, Operand::Owned)
}

fn instant(value: Option<Timestamp>) -> Operand<'static> {
    owned(value.map(PropertyValue::DateTime))
}

/// As the signed integer that a wire has.
fn number(value: u64) -> PropertyValue {
    PropertyValue::I64(value.cast_signed())
}

/// Ticks of 100 ns, saturating.
fn ticks(span: Duration) -> i64 {
    i64::try_from(span.as_nanos() / 100).unwrap_or(i64::MAX)
}
