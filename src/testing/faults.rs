use std::{collections::BTreeMap, fmt, time::Duration};

use crate::transport::ErrorKind;

/// A fault of one send over a [`Link`](super::Link).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SendFault {
    /// The message never reaches the broker. When the answer should have come the send fails with this kind.
    LoseMessage(ErrorKind),
    /// The broker takes the message, and its answer is lost. When it should have come the send fails with this kind.
    LoseAnswer(ErrorKind),
    /// The broker refuses the message, as one with this kind of error does: with a condition and a tracking id.
    Reject(ErrorKind),
    /// The broker accepts the message twice, as if a client below the sender repeated the transfer.
    Duplicate,
    /// The broker takes the message, and its answer waits for [`Link::answer`](super::Link::answer).
    Withhold,
}

/// A fault of one delivery over a [`Link`](super::Link).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeliveryFault {
    /// The message is delivered twice. Settling the second delivery answers that the lock is lost.
    Duplicate,
    /// The message is dispatched with this delay, so that later ones overtake it.
    Late(Duration),
    /// The lock is lost in transit. Settling reports it, and the message is redelivered; the failed delivery
    /// counts.
    LoseLock,
    /// The settlement never reaches the broker, and fails with this kind. The message is redelivered, as after an
    /// abandon.
    LoseSettlement(ErrorKind),
    /// The settlement has its effect, and fails with this kind.
    LoseSettlementAnswer(ErrorKind),
}

/// The faults of sends and deliveries: by number, or at random from a seed. A number comes before chance.
///
/// ```
/// use consign::{testing::{Faults, SendFault}, transport::ErrorKind};
///
/// let third = Faults::none().on_send(3, SendFault::Reject(ErrorKind::QuotaExceeded));
/// let weather = Faults::seeded(7).sends(0.1, SendFault::LoseAnswer(ErrorKind::ServiceTimeout));
/// # let _ = (third, weather);
/// ```
#[derive(Clone, Default)]
pub struct Faults {
    sends: Plan<SendFault>,
    deliveries: Plan<DeliveryFault>,
    seed: u64,
    random: Option<fastrand::Rng>,
}

#[derive(Clone)]
struct Plan<F> {
    numbered: BTreeMap<u64, F>,
    odds: Vec<(f64, F)>,
}

impl<F> Default for Plan<F> {
    fn default() -> Self {
        Self { numbered: BTreeMap::new(), odds: Vec::new() }
    }
}

impl<F: Copy> Plan<F> {
    fn next(&self, number: u64, random: Option<&mut fastrand::Rng>) -> Option<F> {
        if let Some(fault) = self.numbered.get(&number) {
            return Some(*fault);
        }
        let mut drawn = random.filter(|_| !self.odds.is_empty())?.f64();
        self.odds.iter().find_map(|&(odds, fault)| {
            drawn -= odds;
            (drawn < 0.0).then_some(fault)
        })
    }
}

impl Faults {
    /// Returns a plan without faults.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Chance decides from this seed, for what [`sends`](Self::sends) and [`deliveries`](Self::deliveries) name. The same
    /// seed makes the same faults for the same calls in the same order; a test should print it when it fails.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self { seed, random: Some(fastrand::Rng::with_seed(seed)), ..Self::default() }
    }

    /// Returns the seed, or 0 without one.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Sets the fault of the send with this number. Sends are numbered from 1 over all senders of a
    /// link.
    #[must_use]
    pub fn on_send(mut self, number: u64, fault: SendFault) -> Self {
        self.sends.numbered.insert(number, fault);
        self
    }

    /// Sets the fault of the delivery with this number. Deliveries are numbered from 1 over all receivers of a
    /// link.
    #[must_use]
    pub fn on_delivery(mut self, number: u64, fault: DeliveryFault) -> Self {
        self.deliveries.numbered.insert(number, fault);
        self
    }

    /// Sets the probability, 0 to 1, with which a send has the fault. Several faults add up, at most to 1. Without a seed
    /// it is 0.
    #[must_use]
    pub fn sends(mut self, probability: f64, fault: SendFault) -> Self {
        self.sends.odds.push((probability.clamp(0.0, 1.0), fault));
        self
    }

    /// Sets the probability, 0 to 1, with which a delivery has the fault.
    #[must_use]
    pub fn deliveries(mut self, probability: f64, fault: DeliveryFault) -> Self {
        self.deliveries.odds.push((probability.clamp(0.0, 1.0), fault));
        self
    }

    pub(super) fn next_send(&mut self, number: u64) -> Option<SendFault> {
        self.sends.next(number, self.random.as_mut())
    }

    pub(super) fn next_delivery(&mut self, number: u64) -> Option<DeliveryFault> {
        self.deliveries.next(number, self.random.as_mut())
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faults")
            .field("seed", &self.seed)
            .field("sends", &self.sends.numbered)
            .field("deliveries", &self.deliveries.numbered)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_its_faults() {
        let lost = SendFault::LoseMessage(ErrorKind::CommunicationProblem);
        let draw = |seed| {
            let mut faults = Faults::seeded(seed).sends(0.25, lost).sends(0.25, SendFault::Duplicate);
            (1..=1_000).map(|number| faults.next_send(number)).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        for (fault, about) in [(Some(lost), 250), (Some(SendFault::Duplicate), 250), (None, 500)] {
            let count = draw(7).iter().filter(|drawn| **drawn == fault).count();
            assert!(count.abs_diff(about) < 60, "{fault:?}: {count}");
        }
    }

    #[test]
    fn a_number_comes_before_chance() {
        let mut faults = Faults::seeded(1).sends(1.0, SendFault::Duplicate).on_send(2, SendFault::Withhold);
        let drawn: Vec<_> = (1..=3).map(|number| faults.next_send(number)).collect();
        assert_eq!(drawn, [SendFault::Duplicate, SendFault::Withhold, SendFault::Duplicate].map(Some));
        assert_eq!(Faults::none().sends(1.0, SendFault::Duplicate).next_send(1), None);
    }
}
