//! The capabilities of a transport, as a value: a [`Level`] for each [`Capability`].

use std::{error, fmt};

use super::{ErrorKind, ManageError, ReceiveError, SendError, SettleError};

macro_rules! capabilities {
    ($($(#[$doc:meta])* $name:ident = $id:literal $title:literal,)*) => {
        /// Something that the message model has and that not every broker can do. Each has an id, `K-01` and up, that
        /// stays the same.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Capability {
            $($(#[$doc])* $name,)*
        }

        impl Capability {
            /// All of them, in the order of their ids.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The id: `K-01` and up.
            #[must_use]
            pub const fn id(self) -> &'static str {
                match self {
                    $(Self::$name => $id,)*
                }
            }

            /// Returns the title of the capability, a few words.
            #[must_use]
            pub const fn title(self) -> &'static str {
                match self {
                    $(Self::$name => $title,)*
                }
            }
        }
    };
}

capabilities! {
    /// A send ends when the broker has accepted and stored the message.
    Acceptance = "K-01" "a send ends when the message is stored",
    /// A refused send reports the reason, and whether it may succeed later.
    Rejection = "K-02" "a refused send has the reason",
    /// A message is removed when it is delivered.
    ReceiveAndDelete = "K-03" "receive and delete",
    /// A message is locked until it is settled.
    PeekLock = "K-04" "peek-lock",
    /// The lock duration is a setting of the entity.
    LockDuration = "K-05" "lock duration by entity",
    /// A lock can be extended.
    LockRenewal = "K-06" "renewal of locks",
    /// A settlement under a lock that is lost fails.
    LockFencing = "K-07" "settling after the lock is lost fails",
    /// A message can be settled over another connection, after the receiver that delivered it was dropped.
    SettleElsewhere = "K-08" "settlement over another connection",
    /// Failed deliveries count, and nothing else does.
    DeliveryCount = "K-09" "delivery count",
    /// A message that failed as often as the entity allows is dead-lettered.
    MaxDeliveryCount = "K-10" "dead letter after the last delivery",
    /// A dead letter has a reason, a description and further properties.
    DeadLetterReason = "K-11" "reason and description of dead letters",
    /// No message is lost or changed when it moves to the dead-letter sub-queue.
    DeadLetterIntact = "K-12" "dead letters without loss",
    /// A message expires: at its own time to live, shortened to the entity's.
    TimeToLive = "K-13" "time to live",
    /// An expired message is dead-lettered, if the entity is configured so.
    DeadLetterOnExpiration = "K-14" "dead letter on expiry",
    /// A message becomes visible at an instant that its sender names.
    Scheduling = "K-15" "scheduled messages",
    /// A scheduled message can be cancelled by its sequence number.
    CancelScheduled = "K-16" "cancelling scheduled messages",
    /// Sequence numbers are dense and ascend in the order of acceptance.
    SequenceNumbers = "K-17" "sequence numbers without gaps",
    /// The time of acceptance is the broker's.
    EnqueuedTime = "K-18" "enqueued time by the broker",
    /// Messages can be peeked, without a lock and without a trace.
    Peek = "K-19" "peek",
    /// A message can be set aside, and fetched by its sequence number.
    Deferral = "K-20" "deferral",
    /// An abandoned message is redelivered before those that came after it.
    AbandonInPlace = "K-21" "abandoned messages keep their place",
    /// A lock can be released without counting the delivery.
    Release = "K-22" "release without a count",
    /// A failed message is redelivered after a delay.
    DelayedRetry = "K-23" "delayed retry",
    /// A MessageId that was accepted within a window is not accepted into the entity again.
    DuplicateDetection = "K-24" "duplicate detection",
    /// Messages of one session go to one receiver, in order.
    Sessions = "K-25" "sessions",
    /// A session has a state of opaque bytes.
    SessionState = "K-26" "session state",
    /// A receiver can be given any session that has messages and no receiver.
    NextSession = "K-27" "accepting the next session",
    /// A message sent to a topic is copied to its subscriptions.
    Topics = "K-28" "topics and subscriptions",
    /// A subscription chooses by equal properties.
    CorrelationFilters = "K-29" "correlation filters",
    /// A subscription chooses by an SQL expression, and changes its copies by SQL actions.
    SqlRules = "K-30" "SQL filters and actions",
    /// An entity forwards its messages to another.
    AutoForward = "K-31" "auto-forward",
    /// Settlements and sends happen together or not at all.
    Transactions = "K-32" "transactions of settlements and sends",
    /// A reply reaches its requester.
    RequestReply = "K-33" "request and reply",
    /// Several messages are taken ahead of their handlers.
    Prefetch = "K-34" "several messages at once",
    /// The maximum message size is a setting of the entity, beyond 1 MiB.
    LargeMessages = "K-35" "large messages",
    /// Messages can be removed without receiving them.
    Purge = "K-36" "purge",
    /// A receiver that disconnects releases its messages without a count.
    ReleaseOnDisconnect = "K-37" "a lost receiver's messages are redelivered uncounted",
}

const COUNT: usize = Capability::ALL.len();

impl Capability {
    /// The capability with this id.
    #[must_use]
    pub fn from_id(id: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|capability| capability.id() == id)
    }

    /// What to do on a transport without it, where there is something.
    const fn instead(self) -> Option<&'static str> {
        Some(match self {
            Self::TimeToLive => "limit the age of messages on the entity, or check it in the handler",
            Self::Scheduling => "keep the message and send it when it is due",
            Self::DuplicateDetection => "use `DedupLayer` in the consumer",
            Self::Deferral => "abandon the message, or keep it in a store of the application",
            Self::SqlRules => "use correlation filters, or filter in the handler",
            Self::CorrelationFilters => "filter in the handler",
            Self::AutoForward => "run a consumer that forwards the messages",
            Self::Transactions => "send before the message is completed, and use `DedupLayer` at the receiver",
            Self::LargeMessages => "use `StoreClaimLayer` and `ResolveClaimLayer`",
            Self::Purge => "receive and complete the messages",
            _ => return None,
        })
    }

    /// Returns whether the capability is a promise about other calls, without a call of its own. There is then nothing to
    /// call that could answer [`ErrorKind::NotSupported`], so a program that needs it asks when it builds its stack:
    /// [`Capabilities::require`].
    #[must_use]
    pub const fn is_promise(self) -> bool {
        matches!(
            self,
            Self::Acceptance
                | Self::Rejection
                | Self::LockFencing
                | Self::DeliveryCount
                | Self::DeadLetterIntact
                | Self::SequenceNumbers
                | Self::EnqueuedTime
                | Self::AbandonInPlace
                | Self::RequestReply
                | Self::Prefetch
                | Self::ReleaseOnDisconnect
        )
    }
}

/// The title.
impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.title())
    }
}

/// The level of support of a capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Level {
    /// The broker does it.
    Native,
    /// The transport does it on top of the broker; its documentation gives the cost.
    Emulated,
    /// Not at all. A call of it answers [`ErrorKind::NotSupported`] and has no effect.
    Unsupported,
}

impl Level {
    /// The word for it, as in a table.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Emulated => "emulated",
            Self::Unsupported => "unsupported",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The capabilities of a transport: a level for each. Each transport publishes one.
///
/// ```
/// use consign::transport::{Capabilities, Capability, ErrorKind, Level, SendError};
///
/// const CAN: Capabilities = Capabilities::none()
///     .with_each(&[Capability::Acceptance, Capability::PeekLock], Level::Native)
///     .with(Capability::Scheduling, Level::Emulated);
///
/// assert_eq!(CAN.level(Capability::Scheduling), Level::Emulated);
/// let error: SendError = CAN.require(Capability::Transactions).unwrap_err().into();
/// assert_eq!(error.kind(), ErrorKind::NotSupported);
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Capabilities([Level; COUNT]);

impl Capabilities {
    /// Claims nothing: every capability is unsupported. A capability that is added later is claimed by no transport that does
    /// not name it.
    #[must_use]
    pub const fn none() -> Self {
        Self([Level::Unsupported; COUNT])
    }

    /// These, with this level for each of `capabilities`.
    #[must_use]
    pub const fn with_each(mut self, capabilities: &[Capability], level: Level) -> Self {
        let mut index = 0;
        while index < capabilities.len() {
            self.0[capabilities[index] as usize] = level;
            index += 1;
        }
        self
    }

    /// These, with another level for one.
    #[must_use]
    pub const fn with(mut self, capability: Capability, level: Level) -> Self {
        self.0[capability as usize] = level;
        self
    }

    /// Returns the level of one.
    #[must_use]
    pub const fn level(&self, capability: Capability) -> Level {
        self.0[capability as usize]
    }

    /// Returns whether the transport supports it, natively or not.
    #[must_use]
    pub const fn supports(&self, capability: Capability) -> bool {
        !matches!(self.level(capability), Level::Unsupported)
    }

    /// Requires a capability that a program depends on. The error converts into that of any operation, of the
    /// kind [`ErrorKind::NotSupported`].
    pub const fn require(&self, capability: Capability) -> Result<(), Unsupported> {
        if self.supports(capability) { Ok(()) } else { Err(Unsupported(capability)) }
    }

    /// Iterates over all capabilities with their levels, in the order of their ids.
    #[must_use]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (Capability, Level)> + '_ {
        Capability::ALL.iter().map(|&capability| (capability, self.level(capability)))
    }
}

impl fmt::Debug for Capabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter().map(|(capability, level)| (capability.title(), level))).finish()
    }
}

/// A capability that the transport does not support.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsupported(Capability);

impl Unsupported {
    /// The error for a capability that the transport does not have.
    #[must_use]
    pub const fn new(capability: Capability) -> Self {
        Self(capability)
    }

    /// The capability and what to do instead.
    fn detail(self) -> String {
        let title = self.0.title();
        self.0.instead().map_or_else(|| title.to_owned(), |instead| format!("{title}; {instead}"))
    }

    /// Returns the missing capability.
    #[must_use]
    pub const fn capability(&self) -> Capability {
        self.0
    }
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the transport does not support: {}", self.0)?;
        self.0.instead().map_or(Ok(()), |instead| write!(f, "; {instead}"))
    }
}

impl error::Error for Unsupported {}

macro_rules! into_operation_error {
    ($($error:ident),*) => {$(
        impl From<Unsupported> for $error {
            fn from(error: Unsupported) -> Self {
                Self::new(ErrorKind::NotSupported).with_detail(error.detail()).with_source(error)
            }
        }
    )*};
}

into_operation_error!(SendError, ReceiveError, SettleError, ManageError);

#[cfg(test)]
mod tests {
    use super::*;

    /// Rules: K-40.
    #[test]
    fn every_capability_has_its_id_in_order() {
        for (index, capability) in Capability::ALL.iter().enumerate() {
            assert_eq!(capability.id(), format!("K-{:02}", index + 1));
            assert_eq!(*capability as usize, index);
            assert_eq!(Capability::from_id(capability.id()), Some(*capability));
        }
        assert_eq!((COUNT, Capability::from_id("K-38")), (37, None));
    }

    /// Rules: K-40.
    #[test]
    fn an_unsupported_capability_is_a_typed_error() {
        const CAN: Capabilities = Capabilities::none()
            .with_each(Capability::ALL, Level::Emulated)
            .with(Capability::Purge, Level::Unsupported);
        assert_eq!(CAN.iter().filter(|(_, level)| *level == Level::Unsupported).count(), 1);
        assert_eq!(CAN.require(Capability::Peek), Ok(()));
        let error = CAN.require(Capability::Purge).unwrap_err();
        assert_eq!(error.capability(), Capability::Purge);
        let error = ManageError::from(error);
        assert!(error.kind() == ErrorKind::NotSupported && !error.is_retryable(), "{error}");
        let text = "manage: the transport does not support this (purge; receive and complete the messages)";
        assert_eq!(error.to_string(), text);
        for &capability in Capability::ALL {
            let shown =
                format!("{capability} {} {}", Unsupported(capability), SendError::from(Unsupported(capability)));
            assert!(!shown.contains("K-"), "{shown}");
        }
        assert!(!format!("{CAN:?}").contains("K-"));
    }

    /// Rules: K-40.
    #[test]
    fn an_unsupported_capability_says_what_to_do_instead_where_there_is_something() {
        let instead = [
            (Capability::TimeToLive, "limit the age of messages on the entity, or check it in the handler"),
            (Capability::Scheduling, "keep the message and send it when it is due"),
            (Capability::Deferral, "abandon the message, or keep it in a store of the application"),
            (Capability::DuplicateDetection, "use `DedupLayer` in the consumer"),
            (Capability::CorrelationFilters, "filter in the handler"),
            (Capability::SqlRules, "use correlation filters, or filter in the handler"),
            (Capability::AutoForward, "run a consumer that forwards the messages"),
            (Capability::Transactions, "send before the message is completed, and use `DedupLayer` at the receiver"),
            (Capability::LargeMessages, "use `StoreClaimLayer` and `ResolveClaimLayer`"),
            (Capability::Purge, "receive and complete the messages"),
        ];
        let known = Capability::ALL.iter().filter_map(|each| Some((*each, each.instead()?)));
        assert_eq!(known.collect::<Vec<_>>(), instead);
    }
}
