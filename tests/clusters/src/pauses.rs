//! For how long work stood still after a fault: a pure function over the history.

use std::collections::BTreeMap;

use crate::history::{Event, Queue, What};

/// Work that has to go on: of each client, or of all together where one may wait for the other.
fn stream(event: &Event) -> Option<(&'static str, u32)> {
    match &event.what {
        What::Sent { .. } => Some(("send", event.client)),
        What::Answered { .. } => Some(("call", event.client)),
        What::Delivered { queue: Queue::Sessions, .. } => Some(("session", 0)),
        What::Delivered { .. } => Some(("receive", 0)),
        _ => None,
    }
}

/// The longest time without a success of one kind of work that ends in the window, in ms. `events` are in the order of time.
pub(crate) fn longest(events: &[Event], from: u64, to: u64) -> u64 {
    let mut last: BTreeMap<_, u64> = BTreeMap::new();
    let mut longest = 0;
    for event in events {
        let Some(stream) = stream(event) else { continue };
        if let Some(before) = last.insert(stream, event.at)
            && event.at >= from
            && before <= to
        {
            longest = longest.max(event.at - before.max(from.saturating_sub(SLACK)));
        }
    }
    longest
}

/// What began before the fault counts from the fault, and this much before.
const SLACK: u64 = 100;

/// The value that this share of all is not above.
pub(crate) fn percentile(values: &mut [u64], share: f64) -> u64 {
    values.sort_unstable();
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "few values"
    )]
    let index = ((values.len() as f64 * share).ceil() as usize).saturating_sub(1);
    values.get(index).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(at: u64, client: u32) -> Event {
        Event { at, client, what: What::Sent { queue: Queue::Work, id: at.to_string() } }
    }

    #[test]
    fn the_longest_pause_of_the_worst_client_counts() {
        let events =
            [sent(0, 0), sent(0, 1), sent(900, 0), sent(1_000, 1), sent(1_100, 0), sent(4_000, 1), sent(9_000, 1)];
        assert_eq!(longest(&events, 1_050, 2_000), 3_000, "the second client, from 1,000 to 4,000");
        assert_eq!(longest(&events, 2_000, 2_500), 2_100, "from a little before the fault");
        assert_eq!(longest(&events, 0, 950), 900 + 100);
    }

    #[test]
    fn a_percentile_is_one_of_the_values() {
        let mut values: Vec<_> = (1..=100).rev().collect();
        assert_eq!((percentile(&mut values, 0.5), percentile(&mut values, 0.99)), (50, 99));
        assert_eq!((percentile(&mut [7], 0.5), percentile(&mut [], 0.5)), (7, 0));
    }
}
