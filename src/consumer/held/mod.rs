//! Messages that are held outside of the slots, under locks that are renewed: those whose id another consumer is handling, and
//! those whose delay the transport cannot keep.

mod run;

use std::mem;

use tokio::time::Instant;

use super::slot::{Renewing, Unsettled};
use crate::{
    message::Holding,
    settlement::Changes,
    transport::{Delivery, Lease},
};

/// The messages that are held.
pub(super) struct HeldMessages<L: Lease> {
    all: Vec<HeldMessage<L>>,
    /// How many of them are due.
    due: usize,
    /// How many renewals are not answered.
    asked: usize,
    /// Whether a layer may request that a message is held.
    holding: Holding,
}

struct HeldMessage<L: Lease> {
    held: Unsettled<L>,
    since: Instant,
    /// The slot that it occupies, because no more could be held outside of the slots.
    slot: Option<usize>,
    next: Next,
    due: Instant,
    is_due: bool,
    renewing: Option<Renewing<L>>,
}

/// What becomes of it when it is due.
enum Next {
    Call,
    Abandon(Changes),
}

impl<L: Lease> HeldMessages<L> {
    /// At most so many of them are outside of the slots.
    pub(super) fn new(max: usize) -> Self {
        let holding = if max > 0 { Holding::May } else { Holding::No };
        Self { all: Vec::new(), due: 0, asked: 0, holding }
    }

    /// Whether a layer may request that a message is held.
    #[inline]
    pub(super) fn holding(&self) -> Holding {
        self.holding
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether one waits for the stack.
    pub(super) fn is_due(&self) -> bool {
        self.due > 0
    }

    pub(super) fn drain(&mut self) -> impl Iterator<Item = Delivery<L>> {
        self.take_all()
            .into_iter()
            .map(|HeldMessage { held: Unsettled { message, lease, .. }, .. }| Delivery { message, lease })
    }

    fn take_all(&mut self) -> Vec<HeldMessage<L>> {
        (self.due, self.asked) = (0, 0);
        mem::take(&mut self.all)
    }

    /// Takes one out, with the slot that has become free by that.
    fn take(&mut self, at: usize) -> (HeldMessage<L>, Option<usize>) {
        let keep = self.all.remove(at);
        self.due -= usize::from(keep.is_due);
        self.asked -= usize::from(keep.is_renewing());
        let freed = match keep.slot {
            Some(_) => None,
            None => self.all.iter_mut().find_map(|other| other.slot.take()),
        };
        (keep, freed)
    }
}

impl<L: Lease> HeldMessage<L> {
    fn is_renewing(&self) -> bool {
        self.renewing.as_ref().is_some_and(|renewing| renewing.asked.is_some())
    }
}
