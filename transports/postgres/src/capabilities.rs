use consign_core::transport::{Capabilities, Capability, Level};

pub(crate) const CAPABILITIES: Capabilities = Capabilities::none()
    .with_each(NATIVE, Level::Native)
    .with_each(&[Capability::RequestReply, Capability::ReleaseOnDisconnect], Level::Emulated);

/// What the database does itself.
const NATIVE: &[Capability] = &[
    Capability::Acceptance,
    Capability::Rejection,
    Capability::ReceiveAndDelete,
    Capability::PeekLock,
    Capability::LockDuration,
    Capability::LockRenewal,
    Capability::LockFencing,
    Capability::SettleElsewhere,
    Capability::DeliveryCount,
    Capability::MaxDeliveryCount,
    Capability::DeadLetterReason,
    Capability::DeadLetterIntact,
    Capability::TimeToLive,
    Capability::DeadLetterOnExpiration,
    Capability::Scheduling,
    Capability::CancelScheduled,
    Capability::SequenceNumbers,
    Capability::EnqueuedTime,
    Capability::Peek,
    Capability::Deferral,
    Capability::AbandonInPlace,
    Capability::Release,
    Capability::DelayedRetry,
    Capability::DuplicateDetection,
    Capability::Sessions,
    Capability::SessionState,
    Capability::NextSession,
    Capability::Topics,
    Capability::CorrelationFilters,
    Capability::SqlRules,
    Capability::AutoForward,
    Capability::Transactions,
    Capability::Prefetch,
    Capability::LargeMessages,
    Capability::Purge,
];
