//! How ids are known, and how the id of a message is reserved.

use std::{fmt, mem, sync::Arc, time::Duration};

use tokio::time::{Instant, sleep};

use super::{
    Begin, DedupKey, DedupStats, DedupStore, MakeKey, StoreError,
    reservation::{Reservation, failed_reservation},
};
use crate::{Message, message::Holding};

/// How ids are known.
pub(super) struct Ids<St, K> {
    pub(super) store: Arc<St>,
    pub(super) scope: Arc<str>,
    pub(super) key: Arc<K>,
    pub(super) times: Times,
    pub(super) stats: DedupStats,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) lease: Duration,
    pub(super) wait: Duration,
}

impl<St, K> Clone for Ids<St, K> {
    fn clone(&self) -> Self {
        Self {
            store: Arc::clone(&self.store),
            scope: Arc::clone(&self.scope),
            key: Arc::clone(&self.key),
            times: self.times,
            stats: self.stats.clone(),
        }
    }
}

impl<St, K> fmt::Debug for Ids<St, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ids")
            .field("scope", &self.scope)
            .field("times", &self.times)
            .field("stats", &self.stats)
            .finish_non_exhaustive()
    }
}

/// What a message may do.
pub(super) enum Verdict<'a, St: DedupStore> {
    HandOn(Reservation<'a, St>),
    HandOnWithoutKey,
    Known,
    /// The consumer is to hold the message. Something may be new after this time, zero if that is not known.
    Hold(Duration),
    InProgress,
}

impl<St: DedupStore, K> Ids<St, K> {
    #[inline]
    pub(super) fn reservation(&self, token: St::Token) -> Reservation<'_, St> {
        Reservation::new(&self.store, &self.stats, token)
    }
}

impl<St: DedupStore, K: MakeKey> Ids<St, K> {
    /// Reserves the id of a message, and waits for that if it must.
    pub(super) async fn reserve(&self, message: &Message) -> Result<Verdict<'_, St>, StoreError> {
        let Some(id) = self.key.make_key(message) else { return Ok(Verdict::HandOnWithoutKey) };
        let key = DedupKey::new(&self.scope, &id);
        let mut waiting = Waiting::new(self.times.wait);
        let holding = message.holding();
        let mut met = matches!(holding, Holding::Was);
        loop {
            let (left, failure) = match self.store.begin(key, self.times.lease).await {
                Ok(Begin::New(token)) => return Ok(Verdict::HandOn(self.reservation(token))),
                Ok(Begin::Committed) => return Ok(Verdict::Known),
                Ok(Begin::InProgress { left }) => {
                    if !mem::replace(&mut met, true) {
                        self.stats.count_in_progress();
                    }
                    if !matches!(holding, Holding::No) {
                        return Ok(Verdict::Hold(left));
                    }
                    (left, None)
                }
                Err(error) => {
                    failed_reservation(&self.scope, &self.stats, &error);
                    (Duration::ZERO, Some(error))
                }
            };
            match (waiting.next(left), failure) {
                (Some(pause), _) => sleep(pause).await,
                (None, Some(error)) => return Err(error),
                (None, None) => return Ok(Verdict::InProgress),
            }
        }
    }
}

/// How a call waits: for a short while at first, and then for longer. Most calls do not, and so do not look at the time.
struct Waiting {
    since: Option<Instant>,
    total: Duration,
    pause: Duration,
}

impl Waiting {
    const SHORTEST: Duration = Duration::from_millis(1);
    const FIRST: Duration = Duration::from_millis(10);
    const LONGEST: Duration = Duration::from_secs(1);

    fn new(total: Duration) -> Self {
        Self { since: None, total, pause: Self::FIRST }
    }

    /// How long to pause. `left` is when there is something new at the latest, zero if that is not known; `None` if the
    /// time is over.
    fn next(&mut self, left: Duration) -> Option<Duration> {
        let rest = self.total.saturating_sub(self.since.get_or_insert_with(Instant::now).elapsed());
        let pause = if left.is_zero() { self.pause } else { self.pause.min(left) };
        self.pause = (self.pause * 2).min(Self::LONGEST);
        (!rest.is_zero()).then(|| pause.min(rest).max(Self::SHORTEST))
    }
}
