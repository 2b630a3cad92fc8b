//! What a send adds to an entity.

use std::collections::BTreeSet;

use super::{
    store::{Arrival, Id, Number, Upcoming},
    time::Now,
};

/// What a send adds to an entity.
#[derive(Debug, Default)]
pub(super) struct Load {
    pub(super) bytes: u64,
    pub(super) ids: BTreeSet<Id>,
    /// Whether the size of the copies of a topic is an estimate; `bytes` is not too low.
    pub(super) is_estimate: bool,
    /// The numbers of its messages, which rules can read. Without them the size of copies is an estimate.
    pub(super) upcoming: Option<Upcoming>,
}

impl Load {
    /// Returns the number that the message will have.
    #[inline]
    pub(super) fn number(&mut self, now: Now, arrival: &Arrival) -> Option<Number> {
        self.upcoming.as_mut().map(|upcoming| upcoming.next(now, &arrival.message))
    }
}

/// A message that an entity is about to number.
#[derive(Clone, Copy, Debug)]
pub(super) enum Incoming<'a> {
    Sent(&'a Arrival),
    /// Sent, and it has a number already if it is scheduled.
    Reserved(&'a Arrival),
    /// Kept as a dead letter, which [`Balance::kept`] counts.
    Kept(&'a Arrival),
}

impl<'a> Incoming<'a> {
    pub(super) fn arrival(self) -> &'a Arrival {
        let (Self::Sent(arrival) | Self::Reserved(arrival) | Self::Kept(arrival)) = self;
        arrival
    }
}

/// The other changes of a transaction to the bytes of an entity.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Balance {
    /// The bytes that it removes.
    pub(super) freed: u64,
    /// The bytes that it keeps as dead letters.
    pub(super) kept: u64,
}
