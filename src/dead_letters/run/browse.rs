//! Listing under locks, where nothing can be peeked.

use std::{future::poll_fn, time::Duration};

use tokio::time::timeout;

use super::{
    super::{DeadLetterFilter, DeadLetterQueue, DeadLetters, Explained, ListLimit, no_dead_letter},
    held::{Held, Kept},
};
use crate::{
    message::SequenceNumber,
    transport::{ReceiveError, Receiver, ReceiverExt, deadline::Unanswered},
};

/// How long the first one may take to arrive. The transport may have to open a link, and to request it.
pub(super) const FIRST_ARRIVAL: Duration = Duration::from_secs(5);
/// How long the next one may take to arrive.
const ARRIVAL: Duration = Duration::from_secs(1);

impl<Q: DeadLetterQueue> DeadLetters<Q> {
    pub(in crate::dead_letters) async fn browse(
        &self,
        filter: &DeadLetterFilter,
        from: SequenceNumber,
        max: usize,
    ) -> Result<Vec<Explained>, ReceiveError> {
        let mut receiver = self.queue.receiver().await?;
        let mut held = Held::new(self.operation, receiver.entity_info());
        let mut found = Vec::new();
        let (mut listed, mut is_cut, mut is_silent) = (Ok(()), false, false);
        while listed.is_ok() && !is_cut && found.len() < max {
            // One more shows that the list is not complete.
            let most = Self::PAGE.min(max - found.len()).min(ListLimit::MAX + 1 - held.taken());
            let arrival = if held.taken() == 0 { FIRST_ARRIVAL } else { ARRIVAL };
            let received = tokio::select! {
                biased;
                never = held.keep() => match never {},
                received = timeout(arrival, receiver.receive_batch(most)) => received,
            };
            let deliveries = match received {
                Ok(Ok(deliveries)) => deliveries,
                Ok(Err(error)) => {
                    listed = Err(error);
                    break;
                }
                Err(_) => {
                    is_silent = true;
                    break;
                }
            };
            let now = self.clock.now().utc;
            for mut delivery in deliveries {
                held.push(Kept::new(delivery.lease));
                let Some(mut received) = delivery.message.received().copied().filter(|it| it.dead_lettered) else {
                    listed = Err(no_dead_letter());
                    continue;
                };
                received.sequence_number = SequenceNumber::new(held.taken() as u64);
                delivery.message = delivery.message.with_received(received);
                let dead = Explained::new(delivery.message, now);
                if held.taken() > ListLimit::MAX {
                    is_cut = true;
                } else if dead.sequence_number() >= from && found.len() < max && filter.matches(&dead) {
                    found.push(dead);
                }
            }
        }
        receiver.stop();
        if is_silent {
            // A transport that does not end the request either may have been silent about more than the end.
            let stopped = tokio::select! {
                biased;
                never = held.keep() => match never {},
                stopped = timeout(self.operation, poll_fn(|cx| receiver.poll_stopped(cx))) => stopped,
            };
            if stopped.is_err() {
                listed = Err(Unanswered::after(self.operation).into());
            }
        }
        held.release().await;
        listed?;
        if is_cut { Err(ListLimit::error(found)) } else { Ok(found) }
    }
}
