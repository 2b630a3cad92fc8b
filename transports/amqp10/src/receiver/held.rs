use std::sync::Arc;

use consign_amqp::engine::DeliveryId;
use consign_core::{Message, time::Timestamp};

use super::source::Origin;

/// A locked delivery.
pub(super) struct Held {
    pub(super) origin: Arc<Origin>,
    pub(super) id: DeliveryId,
    pub(super) message: Message,
    pub(super) number: u64,
    pub(super) enqueued: Timestamp,
    /// Deliveries that have failed before this one.
    pub(super) failed: u32,
}
