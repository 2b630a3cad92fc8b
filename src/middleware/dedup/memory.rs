use std::{
    fmt,
    future::{Future, poll_fn},
    sync::PoisonError,
    task::Poll,
    time::Duration,
};

use super::{
    Begin, DedupKey, DedupStore, StoreError,
    known::{Known, MemoryToken},
};
use crate::{
    sync::{Mutex, MutexGuard},
    time::{Clock, SystemClock},
};

/// Ids in the memory of this process. They are gone with it.
///
/// An id takes about 50 bytes, as a keyed digest of 128 bits whose secret is drawn for each store: a million of them take
/// less than 96 MiB, and their length does not matter. A store that is full refuses, as
/// [`Full`](super::StoreErrorKind::Full); it never forgets early. Ids are forgotten in the order of their commits, by the calls
/// that follow the end of their window.
pub struct MemoryStore<C = SystemClock> {
    clock: C,
    secret: [u8; 16],
    ids: Mutex<Known>,
}

impl MemoryStore {
    /// How many ids a store keeps by default, reserved and committed ones: a million.
    pub const MAX_IDS: usize = 1_000_000;

    /// Creates a store that keeps an id for `window` after its commit. Time is tokio's.
    #[must_use]
    pub fn new(window: Duration) -> Self {
        Self::with_clock(window, SystemClock::new())
    }
}

impl<C: Clock> MemoryStore<C> {
    /// Creates a store that keeps an id for `window` after its commit, by the monotonic time of
    /// `clock`.
    ///
    /// # Panics
    ///
    /// If the system has no random numbers.
    #[must_use]
    pub fn with_clock(window: Duration, clock: C) -> Self {
        let mut secret = [0; 16];
        getrandom::fill(&mut secret).expect("the system has random numbers");
        Self { clock, secret, ids: Mutex::new(Known::new(nanos(window), MemoryStore::MAX_IDS)) }
    }

    /// Sets how many ids the store has at most: 1 to 2^31; values outside are clamped. Of these at most a quarter, or 1,024
    /// if that is more, may be reserved at once.
    #[must_use]
    pub fn max_ids(self, max: usize) -> Self {
        self.ids().set_max(max.clamp(1, 1 << 31));
        self
    }

    /// Returns how many ids are kept, reserved and committed ones. Those whose time is over count until they are forgotten.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ids().len()
    }

    /// Returns whether no id is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    fn ids(&self) -> MutexGuard<'_, Known> {
        // Nothing in there panics half-way.
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    fn now(&self) -> u64 {
        nanos(self.clock.now().elapsed)
    }
}

/// Its futures have no state of their own, which those of an `async fn` have.
impl<C: Clock> DedupStore for MemoryStore<C> {
    type Token = MemoryToken;

    const IS_IMMEDIATE: bool = true;

    #[inline]
    fn begin(
        &self,
        key: DedupKey<'_>,
        lease: Duration,
    ) -> impl Future<Output = Result<Begin<MemoryToken>, StoreError>> + Send {
        at_once(move || {
            let (digest, now) = (key.halves(&self.secret), self.now());
            self.ids().begin(digest, now, nanos(lease))
        })
    }

    fn renew(&self, token: &MemoryToken, lease: Duration) -> impl Future<Output = Result<(), StoreError>> + Send {
        at_once(move || {
            let until = self.now().saturating_add(nanos(lease));
            self.ids().renew(token, until)
        })
    }

    #[inline]
    fn commit(&self, token: &MemoryToken) -> impl Future<Output = Result<(), StoreError>> + Send {
        at_once(move || {
            let now = self.now();
            self.ids().commit(token, now)
        })
    }

    fn forget(&self, token: &MemoryToken) -> impl Future<Output = Result<(), StoreError>> + Send {
        at_once(move || {
            self.ids().forget(token);
            Ok(())
        })
    }
}

/// Calls `answer` when it is polled.
#[inline]
fn at_once<T>(mut answer: impl FnMut() -> T) -> impl Future<Output = T> {
    poll_fn(move |_| Poll::Ready(answer()))
}

impl<C> fmt::Debug for MemoryStore<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").finish_non_exhaustive()
    }
}

/// Nanoseconds, which last for 584 years.
fn nanos(duration: Duration) -> u64 {
    duration.as_secs().saturating_mul(1_000_000_000).saturating_add(duration.subsec_nanos().into())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::time::{ManualClock, Timestamp};

    const LEASE: Duration = Duration::from_secs(60);

    async fn begin<C: Clock>(store: &MemoryStore<C>) -> Begin<MemoryToken> {
        begin_id(store, b"a").await
    }

    async fn begin_id<C: Clock>(store: &MemoryStore<C>, id: &[u8]) -> Begin<MemoryToken> {
        store.begin(DedupKey::new("orders", id), LEASE).await.expect("a store that is not full")
    }

    async fn reserve<C: Clock>(store: &MemoryStore<C>, id: &[u8]) -> MemoryToken {
        match begin_id(store, id).await {
            Begin::New(token) => token,
            known => panic!("{known:?}"),
        }
    }

    /// Rules: W-06.
    #[tokio::test]
    async fn the_reservation_of_another_holder_is_not_forgotten() {
        let clock = Arc::new(ManualClock::new(Timestamp::EPOCH));
        let store = MemoryStore::with_clock(LEASE, Arc::clone(&clock));
        let Begin::New(late) = begin(&store).await else { panic!("it is new") };
        clock.advance(LEASE);
        let Begin::New(_) = begin(&store).await else { panic!("the lease has ended") };
        store.forget(&late).await.unwrap();
        assert!(matches!(begin(&store).await, Begin::InProgress { .. }));
    }

    /// Rules: W-08, W-11.
    #[tokio::test]
    async fn a_late_holder_whose_slot_is_another_ones_has_its_own_id_still() {
        let clock = Arc::new(ManualClock::new(Timestamp::EPOCH));
        let store = MemoryStore::with_clock(LEASE, Arc::clone(&clock)).max_ids(2);
        let (late, later) = (reserve(&store, b"a").await, reserve(&store, b"b").await);
        clock.advance(LEASE);
        // The store was full, and has forgotten both.
        let new = reserve(&store, b"c").await;
        assert_eq!(store.len(), 1);
        store.forget(&later).await.unwrap();
        store.renew(&later, LEASE).await.unwrap_err();
        assert!(matches!(begin_id(&store, b"c").await, Begin::InProgress { .. }), "in the slot of one of them");
        store.commit(&late).await.unwrap();
        assert!(matches!(begin_id(&store, b"a").await, Begin::Committed));
        assert!(matches!(begin_id(&store, b"c").await, Begin::InProgress { .. }));
        store.commit(&new).await.unwrap();
        assert!(matches!(begin_id(&store, b"c").await, Begin::Committed));
    }

    #[tokio::test]
    async fn reservations_end_in_any_order() {
        let store = MemoryStore::with_clock(LEASE, ManualClock::new(Timestamp::EPOCH));
        let (a, b, c) = (reserve(&store, b"a").await, reserve(&store, b"b").await, reserve(&store, b"c").await);
        store.forget(&a).await.unwrap();
        // It has the place of the first one now.
        store.renew(&c, LEASE).await.unwrap();
        store.commit(&c).await.unwrap();
        assert!(matches!(begin_id(&store, b"b").await, Begin::InProgress { .. }));
        store.commit(&b).await.unwrap();
        for id in [b"b", b"c"] {
            assert!(matches!(begin_id(&store, id).await, Begin::Committed));
        }
        reserve(&store, b"a").await;
        assert_eq!(store.len(), 3);
    }

    /// Rules: W-08.
    #[tokio::test]
    async fn a_lease_that_is_renewed_for_less_time_makes_room_earlier() {
        let clock = Arc::new(ManualClock::new(Timestamp::EPOCH));
        let store = MemoryStore::with_clock(LEASE, Arc::clone(&clock)).max_ids(1);
        let short = reserve(&store, b"a").await;
        store.renew(&short, LEASE / 4).await.unwrap();
        clock.advance(LEASE / 4);
        reserve(&store, b"b").await;
    }

    /// Rules: W-04.
    #[tokio::test]
    async fn ids_are_known_while_the_table_grows_and_windows_end() {
        let clock = Arc::new(ManualClock::new(Timestamp::EPOCH));
        let store = MemoryStore::with_clock(LEASE, Arc::clone(&clock));
        let ids: Vec<_> = (0..4_000_u32).map(u32::to_le_bytes).collect();
        for id in &ids {
            store.commit(&reserve(&store, id).await).await.unwrap();
        }
        for id in &ids {
            assert!(matches!(begin_id(&store, id).await, Begin::Committed));
        }
        clock.advance(LEASE);
        // The newest first, which is long before its slot is free.
        for id in ids.iter().rev() {
            store.commit(&reserve(&store, id).await).await.unwrap();
        }
        assert_eq!(store.len(), ids.len());
    }
}
