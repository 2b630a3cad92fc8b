use std::{
    collections::VecDeque,
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use hashbrown::HashTable;

use super::{Begin, DedupKey, DedupStore, StoreError, StoreErrorKind};
use crate::time::{Clock, SystemClock};

/// Ids in the memory of this process. They are gone with it.
///
/// An id takes about 36 bytes, as a keyed digest of 128 bits whose secret is drawn for each store: a million of them take
/// less than 96 MiB, and their length does not matter. A store that is full refuses, as
/// [`Full`](StoreErrorKind::Full); it never forgets early. Ids are forgotten in the order of their commits, by the calls
/// that follow the end of their window.
pub struct MemoryStore<C = SystemClock> {
    clock: C,
    secret: [u8; 16],
    ids: Mutex<Ids>,
}

/// The right to end a reservation in a [`MemoryStore`].
#[doc(hidden)]
#[derive(Debug)]
pub struct MemoryToken {
    digest: Digest,
    holder: u64,
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
        Self { clock, secret, ids: Mutex::new(Ids::new(window)) }
    }

    /// Sets how many ids the store has at most: 1 to 2^31; values outside are clamped. Of these at most a quarter, or 1,024
    /// if that is more, may be reserved at once.
    #[must_use]
    pub fn max_ids(mut self, max: usize) -> Self {
        self.ids.get_mut().unwrap_or_else(PoisonError::into_inner).max = max.clamp(1, 1 << 31);
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

    fn ids(&self) -> MutexGuard<'_, Ids> {
        // Nothing in there panics half-way.
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> u64 {
        nanos(self.clock.now().elapsed)
    }
}

impl<C: Clock> DedupStore for MemoryStore<C> {
    type Token = MemoryToken;

    const IS_IMMEDIATE: bool = true;

    async fn begin(&self, key: DedupKey<'_>, lease: Duration) -> Result<Begin<MemoryToken>, StoreError> {
        let (digest, now) = (digest(key.digest(&self.secret)), self.now());
        self.ids().begin(digest, now, nanos(lease))
    }

    async fn renew(&self, token: &MemoryToken, lease: Duration) -> Result<(), StoreError> {
        let until = self.now().saturating_add(nanos(lease));
        self.ids().renew(token, until)
    }

    async fn commit(&self, token: &MemoryToken) -> Result<(), StoreError> {
        let now = self.now();
        self.ids().commit(token, now)
    }

    async fn forget(&self, token: &MemoryToken) -> Result<(), StoreError> {
        self.ids().forget(token);
        Ok(())
    }
}

impl<C> fmt::Debug for MemoryStore<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").finish_non_exhaustive()
    }
}

/// Two halves instead of 128 bits, which would be aligned to 16 bytes.
type Digest = [u64; 2];

fn digest(bytes: [u8; 16]) -> Digest {
    let whole = u128::from_le_bytes(bytes);
    #[expect(clippy::cast_possible_truncation, reason = "the lower half")]
    [whole as u64, (whole >> 64) as u64]
}

/// Nanoseconds, which last for 584 years.
fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// All that is known. Instants are nanoseconds of the clock's monotonic time.
struct Ids {
    window: u64,
    max: usize,
    /// Committed ids in the order of their commits, which is the order in which they are forgotten. Some that are over may
    /// stand here a second time: `table` knows which one counts.
    committed: VecDeque<Committed>,
    /// The number of the first one in `committed`; the others are numbered on from there.
    first: u32,
    /// The numbers of committed ids, by their digests.
    table: HashTable<u32>,
    reserved: HashTable<Reserved>,
    /// Before that no lease is over.
    next_lease_end: u64,
    next_holder: u64,
}

#[derive(Clone, Copy)]
struct Committed {
    digest: Digest,
    until: u64,
}

struct Reserved {
    digest: Digest,
    until: u64,
    holder: u64,
}

impl Ids {
    /// How many ids one call forgets at most. Each call adds one, so that the memory does not grow.
    const FORGET: usize = 32;
    const ALWAYS_IN_PROGRESS: usize = 1_024;

    fn new(window: Duration) -> Self {
        Self {
            window: nanos(window),
            max: MemoryStore::MAX_IDS,
            committed: VecDeque::new(),
            first: 0,
            table: HashTable::new(),
            reserved: HashTable::new(),
            next_lease_end: u64::MAX,
            next_holder: 0,
        }
    }

    fn len(&self) -> usize {
        self.table.len() + self.reserved.len()
    }

    fn begin(&mut self, digest: Digest, now: u64, lease: u64) -> Result<Begin<MemoryToken>, StoreError> {
        self.forget_committed(now);
        if self.is_committed(digest, now) {
            return Ok(Begin::Committed);
        }
        let (until, holder) = (now.saturating_add(lease), self.next_holder);
        let new = Reserved { digest, until, holder };
        match self.reserved.find_mut(digest[0], |reserved| reserved.digest == digest) {
            Some(reserved) if reserved.until > now => {
                return Ok(Begin::InProgress { left: Duration::from_nanos(reserved.until - now) });
            }
            Some(reserved) => *reserved = new,
            None => {
                self.make_room(now)?;
                self.reserved.insert_unique(digest[0], new, |reserved| reserved.digest[0]);
            }
        }
        self.next_holder += 1;
        self.next_lease_end = self.next_lease_end.min(until);
        Ok(Begin::New(MemoryToken { digest, holder }))
    }

    fn renew(&mut self, token: &MemoryToken, until: u64) -> Result<(), StoreError> {
        match self.reserved.find_mut(token.digest[0], |reserved| reserved.holder == token.holder) {
            Some(reserved) => {
                reserved.until = until;
                Ok(())
            }
            None => Err(StoreError::new(StoreErrorKind::Superseded)),
        }
    }

    fn commit(&mut self, token: &MemoryToken, now: u64) -> Result<(), StoreError> {
        let reserved = self.reserved.find(token.digest[0], |reserved| reserved.digest == token.digest);
        match reserved.map(|reserved| reserved.holder) {
            Some(holder) if holder == token.holder => self.forget(token),
            Some(_) => return Err(StoreError::new(StoreErrorKind::Superseded)),
            None if self.is_committed(token.digest, now) => return Ok(()),
            // Its lease is over, and it was forgotten.
            None => self.make_room(now)?,
        }
        self.remember(Committed { digest: token.digest, until: now.saturating_add(self.window) });
        Ok(())
    }

    fn forget(&mut self, token: &MemoryToken) {
        if let Ok(found) = self.reserved.find_entry(token.digest[0], |reserved| reserved.holder == token.holder) {
            found.remove();
        }
    }

    /// Whether the id is committed and its window lasts. One whose window is over is forgotten.
    fn is_committed(&mut self, digest: Digest, now: u64) -> bool {
        let (committed, first) = (&self.committed, self.first);
        let place = |number: u32| committed[number.wrapping_sub(first) as usize];
        let Ok(found) = self.table.find_entry(digest[0], |&number| place(number).digest == digest) else {
            return false;
        };
        if place(*found.get()).until > now {
            return true;
        }
        found.remove();
        false
    }

    #[expect(clippy::cast_possible_truncation, reason = "there are 2^31 at most")]
    fn remember(&mut self, id: Committed) {
        let number = self.first.wrapping_add(self.committed.len() as u32);
        self.committed.push_back(id);
        let (committed, first) = (&self.committed, self.first);
        let hash = |&number: &u32| committed[number.wrapping_sub(first) as usize].digest[0];
        self.table.insert_unique(id.digest[0], number, hash);
    }

    /// Forgets some ids whose window is over, the oldest first.
    fn forget_committed(&mut self, now: u64) {
        for _ in 0..Self::FORGET {
            let Some(id) = self.committed.front().filter(|id| id.until <= now) else { break };
            let first = self.first;
            // Not found if it was forgotten before.
            if let Ok(found) = self.table.find_entry(id.digest[0], |&number| number == first) {
                found.remove();
            }
            self.committed.pop_front();
            self.first = first.wrapping_add(1);
        }
    }

    /// Fails unless one more can be reserved.
    fn make_room(&mut self, now: u64) -> Result<(), StoreError> {
        let is_full =
            |ids: &Self| ids.len() >= ids.max || ids.reserved.len() >= (ids.max / 4).max(Self::ALWAYS_IN_PROGRESS);
        if is_full(self) && self.next_lease_end <= now {
            self.reserved.retain(|reserved| reserved.until > now);
            self.next_lease_end = self.reserved.iter().map(|reserved| reserved.until).min().unwrap_or(u64::MAX);
        }
        if is_full(self) { Err(StoreError::new(StoreErrorKind::Full)) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::time::{ManualClock, Timestamp};

    const LEASE: Duration = Duration::from_secs(60);

    async fn begin<C: Clock>(store: &MemoryStore<C>) -> Begin<MemoryToken> {
        store.begin(DedupKey::new("orders", b"a"), LEASE).await.unwrap()
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
}
