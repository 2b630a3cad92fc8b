use consign_core::transport::{Capabilities, Capability as K, Level};

use crate::Nats;

impl Nats {
    /// The capabilities of this transport, with a server 2.9 and up. The crate's documentation has the reason and the cost of each
    /// level.
    pub const CAPABILITIES: Capabilities = Capabilities::none()
        .with(K::Acceptance, Level::Native)
        .with(K::Rejection, Level::Emulated)
        .with(K::ReceiveAndDelete, Level::Emulated)
        .with(K::PeekLock, Level::Native)
        .with(K::LockDuration, Level::Native)
        .with(K::LockRenewal, Level::Native)
        .with(K::LockFencing, Level::Emulated)
        .with(K::SettleElsewhere, Level::Native)
        .with(K::DeliveryCount, Level::Emulated)
        .with(K::MaxDeliveryCount, Level::Emulated)
        .with(K::DeadLetterReason, Level::Emulated)
        .with(K::DeadLetterIntact, Level::Emulated)
        .with(K::SequenceNumbers, Level::Native)
        .with(K::EnqueuedTime, Level::Native)
        .with(K::Peek, Level::Native)
        .with(K::Deferral, Level::Emulated)
        .with(K::AbandonInPlace, Level::Emulated)
        .with(K::Release, Level::Emulated)
        .with(K::DelayedRetry, Level::Native)
        .with(K::DuplicateDetection, Level::Native)
        .with(K::Sessions, Level::Emulated)
        .with(K::SessionState, Level::Emulated)
        .with(K::NextSession, Level::Emulated)
        .with(K::Topics, Level::Emulated)
        .with(K::CorrelationFilters, Level::Emulated)
        .with(K::SqlRules, Level::Emulated)
        .with(K::RequestReply, Level::Emulated)
        .with(K::Prefetch, Level::Native)
        .with(K::Purge, Level::Emulated);
}
