use std::{collections::HashMap, time::Duration};

use crate::request::Holder;

/// The ids that are reserved. Instants are readings of monotonic time.
#[derive(Default)]
pub(crate) struct Reserved {
    ids: HashMap<u128, Reservation>,
    next: u64,
}

struct Reservation {
    until: Duration,
    number: u64,
}

/// The state of a reservation, as seen by its holder.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Held {
    Yes,
    /// It has no holder: its lease was over, or it was ended.
    Gone,
    BySomebodyElse,
}

impl Reserved {
    pub(crate) const MOST: usize = 65_536;

    /// Returns how long the id is still reserved.
    pub(crate) fn left(&self, digest: u128, now: Duration) -> Option<Duration> {
        self.ids.get(&digest).map(|held| held.until.saturating_sub(now)).filter(|left| !left.is_zero())
    }

    /// Reserves an id that is not reserved. `None` if there are too many.
    pub(crate) fn insert(&mut self, digest: u128, now: Duration, lease: Duration) -> Option<Holder> {
        if self.ids.len() >= Self::MOST {
            self.forget_over(now);
        }
        if self.ids.len() >= Self::MOST {
            return None;
        }
        let number = self.next;
        self.next += 1;
        self.ids.insert(digest, Reservation { until: now.saturating_add(lease), number });
        Some(Holder { digest, number })
    }

    /// How many other ids are reserved, those whose lease is over among them.
    pub(crate) fn others(&self, digest: u128) -> usize {
        self.ids.len() - usize::from(self.ids.contains_key(&digest))
    }

    /// Forgets all whose lease is over.
    pub(crate) fn forget_over(&mut self, now: Duration) {
        self.ids.retain(|_, held| held.until > now);
    }

    pub(crate) fn held(&self, holder: Holder) -> Held {
        match self.ids.get(&holder.digest) {
            Some(held) if held.number == holder.number => Held::Yes,
            Some(_) => Held::BySomebodyElse,
            None => Held::Gone,
        }
    }

    /// Extends a reservation to `lease` from now on. Returns whether that succeeded.
    pub(crate) fn renew(&mut self, holder: Holder, now: Duration, lease: Duration) -> bool {
        let held = self.ids.get_mut(&holder.digest).filter(|held| held.number == holder.number);
        held.map(|held| held.until = now.saturating_add(lease)).is_some()
    }

    pub(crate) fn remove(&mut self, holder: Holder) {
        if self.held(holder) == Held::Yes {
            self.ids.remove(&holder.digest);
        }
    }
}
