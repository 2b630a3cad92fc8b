//! A connection that takes time and fails.

mod lease;
mod receiver;
mod sender;

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{
    sync::{oneshot, watch},
    time::Instant,
};

pub use self::{lease::LinkLease, receiver::LinkReceiver, sender::LinkSender};
use super::{DeliveryFault, Faults, SendFault};
use crate::transport::{BoxFuture, Receiver, SendError, Sender};

/// The way in which a simulated broker stores messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Store {
    /// Each message takes this long, one after the other.
    OneAtATime(Duration),
    /// Each message takes this long, whatever else is stored meanwhile.
    Overlapping(Duration),
    /// One commit takes this long for all messages that arrived before it began; later ones are in the next commit.
    GroupCommit(Duration),
}

/// The settings of a [`Link`]. By default it takes no time and nothing fails.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LinkSettings {
    /// The round trip to the broker: whole milliseconds, half of them each way. Writing takes no time.
    pub round_trip: Duration,
    /// The way in which the broker stores messages.
    pub store: Store,
    /// The faults of the link.
    pub faults: Faults,
}

impl Default for LinkSettings {
    fn default() -> Self {
        Self { round_trip: Duration::ZERO, store: Store::Overlapping(Duration::ZERO), faults: Faults::none() }
    }
}

impl LinkSettings {
    /// Sets [`LinkSettings::round_trip`].
    #[must_use]
    pub fn round_trip(mut self, value: Duration) -> Self {
        self.round_trip = value;
        self
    }

    /// Sets [`LinkSettings::store`].
    #[must_use]
    pub fn store(mut self, value: Store) -> Self {
        self.store = value;
        self
    }

    /// Sets [`LinkSettings::faults`].
    #[must_use]
    pub fn faults(mut self, value: Faults) -> Self {
        self.faults = value;
        self
    }
}

/// A simulated connection between this process and a broker, around any sender and receiver.
///
/// It runs on tokio's clock: pause that, and time is virtual and exact. Sends are pipelined. Each is written at once,
/// reaches the broker half a round trip later, is stored in the order of sending, and is answered another half later. A
/// send that is dropped has been written all the same. A delivery takes half a round trip, a settlement a whole one; a
/// release and a renewal have their effect at once, and their answer a round trip later.
///
/// At most [`Link::MAX_TRANSFERS`] sends are on their way or without an answer; one more fails as
/// [`Throttled`](crate::transport::ErrorKind::Throttled).
///
/// ```
/// use std::time::Duration;
/// use consign::{Message, testing::{Link, LinkSettings, Store, TestBroker}, transport::Sender};
/// use tokio::time::Instant;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let queue = TestBroker::new().queue("orders");
/// let store = Store::OneAtATime(Duration::from_millis(10));
/// let link = Link::new(LinkSettings::default().round_trip(Duration::from_millis(70)).store(store));
/// let sender = link.sender(queue.sender()?);
///
/// let start = Instant::now();
/// let sends: Vec<_> = (0..10).map(|_| sender.send(Message::new("body"))).collect();
/// for send in sends {
///     send.await?;
/// }
/// assert_eq!(start.elapsed(), Duration::from_millis(70 + 10 * 10));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Link {
    shared: Arc<Shared>,
}

struct Shared {
    round_trip: Duration,
    store: Store,
    state: Mutex<State>,
    /// Tells of each new epoch.
    broken: watch::Sender<u64>,
}

struct State {
    connected: bool,
    /// Raised when the connection breaks. What began before it ends with it.
    epoch: u64,
    faults: Faults,
    transfers: u64,
    deliveries: u64,
    /// Transfers without an answer.
    open: usize,
    /// When the latest message, or commit, began or will begin to be stored.
    storing: Option<Instant>,
    withhold: bool,
    withheld: BTreeMap<u64, (oneshot::Sender<Answer>, Answer)>,
}

type Answer = Result<(), SendError>;

impl Link {
    /// Most sends that are on their way or without an answer.
    pub const MAX_TRANSFERS: usize = 10_000;

    /// A connection that is up.
    #[must_use]
    pub fn new(settings: LinkSettings) -> Self {
        let state = State {
            connected: true,
            epoch: 0,
            faults: settings.faults,
            transfers: 0,
            deliveries: 0,
            open: 0,
            storing: None,
            withhold: false,
            withheld: BTreeMap::new(),
        };
        let shared = Shared {
            round_trip: settings.round_trip,
            store: settings.store,
            state: Mutex::new(state),
            broken: watch::Sender::new(0),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Sends by `sender` over this connection. Each send needs a tokio runtime.
    pub fn sender<S: Sender>(&self, sender: S) -> LinkSender<S> {
        LinkSender::new(self.clone(), sender)
    }

    /// Receives from `receiver` over this connection.
    pub fn receiver<R: Receiver>(&self, receiver: R) -> LinkReceiver<R> {
        LinkReceiver::new(self.clone(), receiver)
    }

    /// Returns how many sends were written.
    #[must_use]
    pub fn transfers(&self) -> u64 {
        self.shared.state.lock().transfers
    }

    /// Returns how many messages were delivered, those that were lost on the way included.
    #[must_use]
    pub fn deliveries(&self) -> u64 {
        self.shared.state.lock().deliveries
    }

    /// Makes the broker accept messages and withhold its answers.
    pub fn withhold_answers(&self) {
        self.shared.state.lock().withhold = true;
    }

    /// Returns the numbers of the sends whose answers have arrived and are withheld, in order.
    #[must_use]
    pub fn withheld(&self) -> Vec<u64> {
        self.shared.state.lock().withheld.keys().copied().collect()
    }

    /// Delivers one withheld answer. `false` if there is none for this send.
    #[expect(clippy::must_use_candidate, reason = "it acts")]
    pub fn answer(&self, number: u64) -> bool {
        let mut state = self.shared.state.lock();
        let Some((reply, answer)) = state.withheld.remove(&number) else { return false };
        state.open -= 1;
        drop(state);
        let _ = reply.send(answer);
        true
    }

    /// Delivers all withheld answers, in order, and ends withholding.
    pub fn answer_all(&self) {
        self.shared.state.lock().withhold = false;
        for number in self.withheld() {
            self.answer(number);
        }
    }

    /// Returns whether the connection is up.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.shared.state.lock().connected
    }

    /// Breaks the connection. Sends without an answer fail as
    /// [`CommunicationProblem`](crate::transport::ErrorKind::CommunicationProblem), and so does every send and every
    /// receive until [`Link::reconnect`]. Messages in transit to the broker are lost, those in transit from it are
    /// released. Leases from before settle as [`MessageLockLost`](crate::transport::ErrorKind::MessageLockLost), now
    /// and after; their messages are redelivered, and the failed delivery counts.
    pub fn disconnect(&self) {
        let mut state = self.shared.state.lock();
        state.connected = false;
        state.storing = None;
        state.open -= state.withheld.len();
        let withheld = std::mem::take(&mut state.withheld);
        state.epoch += 1;
        let epoch = state.epoch;
        drop(state);
        // Both wake tasks, which is not done under the lock.
        drop(withheld);
        self.shared.broken.send_replace(epoch);
    }

    /// The connection is up again.
    pub fn reconnect(&self) {
        self.shared.state.lock().connected = true;
    }

    /// One way there; the way back has the millisecond that an odd round trip leaves.
    fn there(&self) -> Duration {
        Duration::from_millis(u64::try_from(self.shared.round_trip.as_millis() / 2).unwrap_or(u64::MAX))
    }

    fn back(&self) -> Duration {
        self.shared.round_trip.saturating_sub(self.there())
    }

    /// The fault of the next delivery, and the epoch that it belongs to.
    fn next_delivery(&self) -> (Option<DeliveryFault>, u64) {
        let mut state = self.shared.state.lock();
        state.deliveries += 1;
        let number = state.deliveries;
        (state.faults.next_delivery(number), state.epoch)
    }

    /// Ready when the connection breaks after now.
    fn broken(&self) -> BoxFuture<()> {
        let mut epochs = self.shared.broken.subscribe();
        // The sender lives as long as the link, which a caller that waits here holds.
        Box::pin(async move { drop(epochs.changed().await) })
    }

    /// Whether what began in `epoch` still goes on.
    fn is_current(&self, epoch: u64) -> bool {
        let state = self.shared.state.lock();
        state.connected && state.epoch == epoch
    }
}

/// A send that was written.
struct Transfer {
    number: u64,
    fault: Option<SendFault>,
    stored_at: Instant,
    answered_at: Instant,
    epoch: u64,
}

enum NotWritten {
    Disconnected,
    TooMany,
}

impl Link {
    /// Writes one message, or one batch, and says when what happens to it.
    fn write(&self) -> Result<Transfer, NotWritten> {
        let mut state = self.shared.state.lock();
        if !state.connected {
            return Err(NotWritten::Disconnected);
        }
        if state.open >= Self::MAX_TRANSFERS {
            return Err(NotWritten::TooMany);
        }
        state.open += 1;
        state.transfers += 1;
        let number = state.transfers;
        let fault = state.faults.next_send(number);
        let stored_at = self.shared.store.stored(&mut state.storing, Instant::now() + self.there());
        Ok(Transfer { number, fault, stored_at, answered_at: stored_at + self.back(), epoch: state.epoch })
    }
}

impl Store {
    /// When a message is stored that arrives at `arrival`, no earlier than any before it.
    fn stored(self, latest: &mut Option<Instant>, arrival: Instant) -> Instant {
        let (begins, takes) = match (self, *latest) {
            (Self::Overlapping(takes) | Self::OneAtATime(takes) | Self::GroupCommit(takes), None)
            | (Self::Overlapping(takes), Some(_)) => (arrival, takes),
            (Self::GroupCommit(takes), Some(latest)) if arrival <= latest => (latest, takes),
            (Self::OneAtATime(takes) | Self::GroupCommit(takes), Some(latest)) => (arrival.max(latest + takes), takes),
        };
        *latest = Some(begins);
        begins + takes
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.state.lock();
        f.debug_struct("Link")
            .field("round_trip", &self.shared.round_trip)
            .field("store", &self.shared.store)
            .field("connected", &state.connected)
            .field("transfers", &state.transfers)
            .field("open", &state.open)
            .field("withheld", &state.withheld.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_group_commit_takes_what_arrived_before_it_began() {
        let start = Instant::now();
        let (store, mut latest) = (Store::GroupCommit(Duration::from_millis(10)), None);
        let stored = [0, 0, 3, 9, 10, 12, 40].map(|arrival| {
            let at = store.stored(&mut latest, start + Duration::from_millis(arrival));
            at.duration_since(start).as_millis()
        });
        // The second commit runs from 10 to 20, and what arrives at 10 is in time for it.
        assert_eq!(stored, [10, 10, 20, 20, 20, 30, 50]);
    }
}
