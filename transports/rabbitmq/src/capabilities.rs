use consign_core::transport::{Capabilities, Capability, Level};

use crate::RabbitMq;

impl RabbitMq {
    /// The capabilities of this transport. The documentation of the crate has the reason and the cost of each level.
    pub const CAPABILITIES: Capabilities = Capabilities::none()
        .with(Capability::Acceptance, Level::Native)
        .with(Capability::Rejection, Level::Emulated)
        .with(Capability::ReceiveAndDelete, Level::Emulated)
        .with(Capability::PeekLock, Level::Native)
        .with(Capability::LockDuration, Level::Emulated)
        .with(Capability::LockRenewal, Level::Emulated)
        .with(Capability::LockFencing, Level::Native)
        .with(Capability::DeliveryCount, Level::Emulated)
        .with(Capability::MaxDeliveryCount, Level::Emulated)
        .with(Capability::DeadLetterReason, Level::Emulated)
        .with(Capability::DeadLetterIntact, Level::Emulated)
        .with(Capability::TimeToLive, Level::Native)
        .with(Capability::DeadLetterOnExpiration, Level::Native)
        .with(Capability::Scheduling, Level::Emulated)
        .with(Capability::Release, Level::Native)
        .with(Capability::DelayedRetry, Level::Emulated)
        .with(Capability::Sessions, Level::Emulated)
        .with(Capability::SessionState, Level::Emulated)
        .with(Capability::NextSession, Level::Emulated)
        .with(Capability::Topics, Level::Native)
        .with(Capability::CorrelationFilters, Level::Native)
        .with(Capability::RequestReply, Level::Native)
        .with(Capability::Prefetch, Level::Native)
        .with(Capability::LargeMessages, Level::Emulated)
        .with(Capability::ReleaseOnDisconnect, Level::Native);
}
