//! Listing under locks, where nothing can be peeked.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    time::Duration,
};

use tokio::time::timeout;

use super::{
    super::{DeadLetterFilter, DeadLetterQueue, DeadLetters, Explained, ListLimit, no_dead_letter},
    held::{Held, Kept},
};
use crate::{
    Message,
    message::SequenceNumber,
    transport::{ReceiveError, Receiver, ReceiverExt, deadline::Unanswered},
};

/// How long the first one may take to arrive. The transport may have to open a link, and to request it.
pub(super) const FIRST_ARRIVAL: Duration = Duration::from_secs(5);
/// How long the next one may take to arrive.
const ARRIVAL: Duration = Duration::from_secs(1);

/// A list of messages that are received under their locks, and released uncounted and in order at the end, or when the future is
/// dropped. The program `consign` and its web UI list the messages of any entity by it.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct UnderLocks {
    /// How long the broker may take to answer a renewal, a release, or the end of the receive.
    pub operation: Duration,
    /// How many there are, if the broker counts them. As long as fewer have arrived, each is awaited as long as the first one.
    pub expected: Option<usize>,
}

/// Why a list has ended.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// No more were wanted, or the list was stopped.
    Enough,
    /// No more arrived.
    Silent,
}

impl UnderLocks {
    /// Most that are received at once.
    const AT_ONCE: usize = 100;

    /// Calls `each` on one message after the other, which returns how many more are wanted. A list ends early when `stop` is ready.
    #[doc(hidden)]
    pub async fn list<R: Receiver>(
        self,
        mut receiver: R,
        mut wanted: usize,
        stop: impl Future<Output = ()> + Send,
        each: &mut (dyn FnMut(Message) -> usize + Send),
    ) -> Result<Ended, ReceiveError> {
        let mut stop = pin!(stop);
        receiver.browse_only();
        let mut held = Held::new(self.operation, receiver.entity_info());
        let mut ended = Ok(Ended::Enough);
        while wanted > 0 {
            let is_awaited = self.expected.map_or(held.taken() == 0, |expected| held.taken() < expected);
            let arrival = if is_awaited { FIRST_ARRIVAL } else { ARRIVAL };
            let received = tokio::select! {
                biased;
                never = held.keep() => match never {},
                () = &mut stop => break,
                received = timeout(arrival, receiver.receive_batch(wanted.min(Self::AT_ONCE))) => received,
            };
            let deliveries = match received {
                Ok(Ok(deliveries)) => deliveries,
                Ok(Err(error)) => {
                    ended = Err(error);
                    break;
                }
                Err(_) => {
                    ended = Ok(Ended::Silent);
                    break;
                }
            };
            // All of them are held before `each` may end the list.
            let mut messages = Vec::with_capacity(deliveries.len());
            for delivery in deliveries {
                held.push(Kept::new(delivery.lease));
                messages.push(delivery.message);
            }
            for message in messages {
                if wanted > 0 {
                    wanted = each(message);
                }
            }
        }
        // A broker delivers what is released to a receiver that still waits, and it returns behind the others.
        receiver.stop();
        let stopped = tokio::select! {
            biased;
            never = held.keep() => match never {},
            stopped = timeout(self.operation, poll_fn(|cx| receiver.poll_stopped(cx))) => stopped,
        };
        held.release().await;
        match ended {
            // A transport that does not end the request either may have been silent about more than the end.
            Ok(Ended::Silent) if stopped.is_err() => Err(Unanswered::after(self.operation).into()),
            ended => ended,
        }
    }
}

impl<Q: DeadLetterQueue> DeadLetters<Q> {
    pub(in crate::dead_letters) async fn browse(
        &self,
        filter: &DeadLetterFilter,
        from: SequenceNumber,
        max: usize,
    ) -> Result<Vec<Explained>, ReceiveError> {
        let receiver = self.queue.receiver().await?;
        let mut found = Vec::new();
        let (mut listed, mut is_cut, mut taken) = (Ok(()), false, 0);
        // One more shows that the list is not complete.
        let wanted = |found: usize, taken: usize| (max - found).min(ListLimit::MAX + 1 - taken);
        let each = &mut |message: Message| {
            taken += 1;
            let Some(mut received) = message.received().copied().filter(|it| it.dead_lettered) else {
                listed = Err(no_dead_letter());
                return 0;
            };
            if taken > ListLimit::MAX {
                is_cut = true;
                return 0;
            }
            received.sequence_number = SequenceNumber::new(taken as u64);
            let dead = Explained::new(message.with_received(received), self.clock.now().utc);
            if dead.sequence_number() >= from && filter.matches(&dead) {
                found.push(dead);
            }
            wanted(found.len(), taken)
        };
        let list = UnderLocks { operation: self.operation, expected: None };
        list.list(receiver, wanted(0, 0), std::future::pending(), each).await?;
        listed?;
        if is_cut { Err(ListLimit::error(found)) } else { Ok(found) }
    }
}
