//! A settlement that the receiver's task does.

use consign_core::{
    settlement::{Changes, DeadLetter},
    transport::SettleError,
};
use tokio::sync::oneshot;

use super::delivered::Held;

/// A delivery that only this job settles, and the settlement.
pub(super) struct Job {
    pub(super) held: Held,
    pub(super) action: Action,
    pub(super) done: Option<oneshot::Sender<Result<(), SettleError>>>,
}

pub(super) enum Action {
    Complete,
    /// Returns it to the broker, which counts that; this crate does not.
    GiveBack,
    /// The delivery failed.
    Abandon(Changes),
    /// The delivery failed, and the message is redelivered after so many steps of a delay.
    AbandonAfter(Changes, u32),
    /// The message is redelivered after so many steps, and the delivery does not count.
    ReleaseAfter(u32),
    DeadLetter(Box<DeadLetter>),
    /// Its time to live is over.
    Expire,
}
