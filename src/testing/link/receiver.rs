use std::{
    collections::VecDeque,
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::time::{Instant, Sleep, sleep_until};

use super::{DeliveryFault, Link, LinkLease};
use crate::transport::{BoxFuture, Capabilities, Delivery, EntityInfo, ErrorKind, Lease, ReceiveError, Receiver};

/// An instant that far away can be computed still.
const LATEST: Duration = Duration::from_secs(365 * 24 * 3_600);

/// A receiver over a [`Link`]. While the connection is down a receive fails as
/// [`CommunicationProblem`](ErrorKind::CommunicationProblem).
#[doc(hidden)]
pub struct LinkReceiver<R: Receiver> {
    link: Link,
    receiver: R,
    /// On their way, in the order of arrival.
    on_the_way: VecDeque<OnTheWay<R::Lease>>,
    received: Vec<Delivery<R::Lease>>,
    timer: Option<Pin<Box<Sleep>>>,
    /// Wakes a receive that waits when the connection breaks.
    broken: BoxFuture<()>,
}

struct OnTheWay<L> {
    arrives: Instant,
    delivery: Delivery<LinkLease<L>>,
}

impl<R: Receiver> LinkReceiver<R> {
    pub(super) fn new(link: Link, receiver: R) -> Self {
        let broken = link.broken();
        Self { link, receiver, on_the_way: VecDeque::new(), received: Vec::new(), timer: None, broken }
    }

    /// Puts the deliveries of the broker in transit.
    fn dispatch(&mut self) {
        let arrives = Instant::now() + self.link.back();
        for Delivery { message, lease } in std::mem::take(&mut self.received) {
            let (fault, epoch) = self.link.next_delivery();
            let arrives = match fault {
                Some(DeliveryFault::Late(late)) => arrives + late.min(LATEST),
                _ => arrives,
            };
            let copy = (fault == Some(DeliveryFault::Duplicate)).then(|| Delivery {
                message: message.clone(),
                lease: LinkLease::dead(self.link.clone(), &lease, epoch),
            });
            let lease = LinkLease::new(self.link.clone(), lease, fault, epoch);
            for delivery in [Some(Delivery { message, lease }), copy].into_iter().flatten() {
                let place = self.on_the_way.partition_point(|before| before.arrives <= arrives);
                self.on_the_way.insert(place, OnTheWay { arrives, delivery });
            }
        }
    }

    fn hand_out(&mut self, max: usize, out: &mut Vec<Delivery<LinkLease<R::Lease>>>) -> usize {
        let now = Instant::now();
        let mut handed = 0;
        while handed < max && self.on_the_way.front().is_some_and(|first| first.arrives <= now) {
            out.extend(self.on_the_way.pop_front().map(|arrived| arrived.delivery));
            handed += 1;
        }
        handed
    }

    /// Ready when the next one has arrived meanwhile.
    fn poll_timer(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(arrives) = self.on_the_way.front().map(|first| first.arrives) else {
            self.timer = None;
            return Poll::Pending;
        };
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(arrives)));
        if timer.deadline() != arrives {
            timer.as_mut().reset(arrives);
        }
        timer.as_mut().poll(cx)
    }

    /// What has not arrived goes back to the broker, without a count.
    fn take_back(&mut self) {
        self.take_back_if(|_| true);
    }

    fn take_back_if(&mut self, is_lost: impl Fn(&LinkLease<R::Lease>) -> bool) {
        for on_the_way in std::mem::take(&mut self.on_the_way) {
            if is_lost(&on_the_way.delivery.lease) {
                drop(on_the_way.delivery.lease.release());
            } else {
                self.on_the_way.push_back(on_the_way);
            }
        }
    }
}

impl<R: Receiver> Receiver for LinkReceiver<R> {
    type Lease = LinkLease<R::Lease>;

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<Self::Lease>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        // Before the question, so that no break falls between the two.
        while self.broken.as_mut().poll(cx).is_ready() {
            self.broken = self.link.broken();
        }
        if !self.link.is_connected() {
            self.take_back();
            let error = ReceiveError::new(ErrorKind::CommunicationProblem);
            return Poll::Ready(Err(error.with_detail("the simulated connection is down")));
        }
        // The connection may have been down and up since the last poll.
        if self.on_the_way.iter().any(|on_the_way| !on_the_way.delivery.lease.is_current()) {
            self.take_back_if(|lease| !lease.is_current());
        }
        let max = max.max(1);
        loop {
            loop {
                let wanted = max.saturating_sub(self.on_the_way.len());
                if wanted == 0 {
                    // In line it would be woken in the place of another that has room.
                    self.receiver.stop();
                    break;
                }
                if self.receiver.poll_receive(cx, wanted, &mut self.received)?.is_pending() {
                    break;
                }
                self.dispatch();
            }
            let handed = self.hand_out(max, out);
            if handed > 0 {
                return Poll::Ready(Ok(handed));
            }
            if self.poll_timer(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }

    fn stop(&mut self) {
        self.timer = None;
        self.receiver.stop();
    }

    fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.receiver.poll_stopped(cx)
    }

    fn capabilities(&self) -> Capabilities {
        self.receiver.capabilities()
    }

    fn entity_info(&self) -> EntityInfo {
        self.receiver.entity_info()
    }
}

/// Releases the deliveries in transit.
impl<R: Receiver> Drop for LinkReceiver<R> {
    fn drop(&mut self) {
        self.take_back();
    }
}

/// The timer is in a box, and nothing else must stay in place.
impl<R: Receiver> Unpin for LinkReceiver<R> {}

impl<R: Receiver> fmt::Debug for LinkReceiver<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LinkReceiver")
            .field("link", &self.link)
            .field("on_the_way", &self.on_the_way.len())
            .finish_non_exhaustive()
    }
}
