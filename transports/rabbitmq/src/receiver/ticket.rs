//! Where a delivery is from, and how it is settled there.

use std::sync::Arc;

use consign::transport::ErrorKind;
use lapin::{
    Acker, Channel,
    options::{BasicAckOptions, BasicNackOptions},
};

use crate::{error::Failure, link::Leased};

/// Where a delivery is from, and where it is settled: the generation of its channel.
pub(super) struct Origin {
    pub(super) subscription: u64,
    pub(super) leased: Leased,
}

/// What a delivery is settled by.
pub(super) struct Ticket {
    pub(super) origin: Arc<Origin>,
    tag: u64,
    /// It knows when its channel has ended, even if lapin has made the connection again and the channel works.
    acker: Acker,
}

impl Ticket {
    pub(super) fn new(origin: Arc<Origin>, delivery: &lapin::message::Delivery) -> Self {
        Self { origin, tag: delivery.delivery_tag, acker: delivery.acker.clone() }
    }

    /// Whether the channel has ended, and the lock with it. The broker gives the message to another then.
    pub(super) fn is_lost(&self) -> bool {
        self.acker.poisoned() || !self.origin.leased.channel.status().connected()
    }

    /// The frame goes out at the first poll: in the order of these, which that of an `Acker` is not.
    pub(super) async fn ack(self) -> Result<(), Failure> {
        self.settle(async |channel, tag| channel.basic_ack(tag, BasicAckOptions::default()).await).await
    }

    pub(super) async fn nack(self) -> Result<(), Failure> {
        let options = BasicNackOptions { multiple: false, requeue: true };
        self.settle(async |channel, tag| channel.basic_nack(tag, options).await).await
    }

    async fn settle(self, operation: impl AsyncFnOnce(&Channel, u64) -> lapin::Result<()>) -> Result<(), Failure> {
        let lost = || Failure::new(ErrorKind::MessageLockLost, "the channel that delivered the message has ended");
        if self.is_lost() {
            return Err(lost());
        }
        match operation(&self.origin.leased.channel, self.tag).await {
            Err(error) if matches!(error.kind(), lapin::ErrorKind::InvalidChannelState(..)) => Err(lost()),
            result => result.map_err(Failure::from),
        }
    }
}
