//! What a file knows while it is open, and after it was closed.
#![allow(clippy::unwrap_used)]

#[path = "../../cases.rs"]
mod cases;

use std::{error::Error, fs, sync::Arc, time::Duration};

use cases::{LEASE, WINDOW, commit, is_committed, reserve};
use consign::{
    middleware::dedup::{Begin, DedupKey, DedupStore, StoreErrorKind},
    time::{ManualClock, Timestamp},
};
use consign_store_redb::{NotOpened, RedbStore, UnknownFormat};
use redb::{Database, TableDefinition};
use tempfile::TempDir;

type Store = RedbStore<Arc<ManualClock>>;

/// A file, and the store that has it open.
struct Bench {
    folder: TempDir,
    clock: Arc<ManualClock>,
    store: Option<Arc<Store>>,
}

#[expect(clippy::unused_async, reason = "the cases are for stores that take time")]
impl Bench {
    const TICK: Duration = Duration::from_millis(1);

    /// Other stores need a server.
    async fn new() -> Option<Self> {
        Some(Self::with_max_ids(RedbStore::MAX_IDS))
    }

    fn with_max_ids(max: u64) -> Self {
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_000_000)));
        let mut bench = Self { folder: tempfile::tempdir().unwrap(), clock, store: None };
        bench.open(max);
        bench
    }

    fn store(&self) -> &Arc<Store> {
        self.store.as_ref().unwrap()
    }

    async fn reopen(&mut self) {
        let last = Arc::into_inner(self.store.take().unwrap());
        drop(last.expect("nobody else has it"));
        self.open(RedbStore::MAX_IDS);
    }

    async fn advance(&self, time: Duration) {
        self.clock.advance(time);
    }

    fn open(&mut self, max: u64) {
        let builder = RedbStore::builder(WINDOW).max_ids(max).clock(Arc::clone(&self.clock));
        self.store = Some(Arc::new(builder.open(self.folder.path().join("handled.redb")).unwrap()));
    }
}

async fn fails_to_begin(store: &Store, id: &[u8]) -> StoreErrorKind {
    store.begin(DedupKey::new("orders", id), LEASE).await.unwrap_err().kind()
}

/// Rules: W-13.
#[tokio::test]
async fn committed_ids_are_known_when_the_file_is_opened_again() {
    let Some(mut bench) = Bench::new().await else { return };
    commit(bench.store(), b"committed").await;
    let forgotten = reserve(bench.store(), b"forgotten").await;
    bench.store().forget(&forgotten).await.unwrap();
    let _reserved = reserve(bench.store(), b"reserved").await;
    bench.reopen().await;

    assert!(is_committed(bench.store(), b"committed").await);
    reserve(bench.store(), b"forgotten").await;
    // Nobody is handling it: the process that was is gone.
    reserve(bench.store(), b"reserved").await;
}

/// Rules: W-19.
#[tokio::test]
async fn a_lease_in_a_file_is_renewed() {
    let Some(bench) = Bench::new().await else { return };
    let store = bench.store();
    let token = reserve(store, b"a").await;
    for _ in 0..20 {
        bench.clock.advance(LEASE / 2);
        store.renew(&token, LEASE).await.unwrap();
    }
    bench.clock.advance(LEASE.saturating_sub(Duration::from_millis(1)));
    assert!(matches!(store.begin(DedupKey::new("orders", b"a"), LEASE).await.unwrap(), Begin::InProgress { .. }));
    // It is over, and nobody else has reserved it.
    bench.clock.advance(Duration::from_millis(1));
    store.renew(&token, LEASE).await.unwrap();
    assert!(matches!(
        store.begin(DedupKey::new("orders", b"a"), LEASE).await.unwrap(),
        Begin::InProgress { left: LEASE }
    ));
    bench.clock.advance(LEASE);
    let second = reserve(store, b"a").await;
    assert_eq!(store.renew(&token, LEASE).await.unwrap_err().kind(), StoreErrorKind::Superseded);
    // What is ended is not begun again by a renewal that comes late.
    store.forget(&second).await.unwrap();
    assert_eq!(store.renew(&second, LEASE).await.unwrap_err().kind(), StoreErrorKind::Superseded);
    reserve(store, b"a").await;
}

/// Rules: W-11.
#[tokio::test]
async fn a_full_file_refuses_until_the_first_window_ends() {
    let bench = Bench::with_max_ids(3);
    let store = bench.store();
    for id in [b"a", b"b", b"c"] {
        commit(store, id).await;
        bench.advance(Duration::from_millis(1)).await;
    }
    assert_eq!(fails_to_begin(store, b"d").await, StoreErrorKind::Full);
    for id in [b"a", b"b", b"c"] {
        assert!(is_committed(store, id).await);
    }
    bench.advance(Duration::from_millis(599_997)).await;
    // The place that is free is that of the one that is in progress.
    let d = reserve(store, b"d").await;
    assert_eq!(fails_to_begin(store, b"e").await, StoreErrorKind::Full);
    store.commit(&d).await.unwrap();
    assert_eq!(fails_to_begin(store, b"e").await, StoreErrorKind::Full);
    assert!(is_committed(store, b"b").await);
}

/// Rules: W-11.
#[tokio::test]
async fn what_is_in_progress_can_be_committed() {
    let bench = Bench::with_max_ids(3);
    let store = bench.store();
    commit(store, b"a").await;
    let (b, c) = (reserve(store, b"b").await, reserve(store, b"c").await);
    assert_eq!(fails_to_begin(store, b"d").await, StoreErrorKind::Full);
    // An id whose lease is over no longer counts. Its commit comes too late.
    bench.advance(LEASE).await;
    store.renew(&b, LEASE).await.unwrap();
    let d = reserve(store, b"d").await;
    store.commit(&d).await.unwrap();
    store.commit(&b).await.unwrap();
    assert_eq!(store.commit(&c).await.unwrap_err().kind(), StoreErrorKind::Full);
    for id in [b"a", b"b", b"d"] {
        assert!(is_committed(store, id).await);
    }
    // All windows are over: as many as before are reserved, and committed.
    bench.advance(WINDOW).await;
    let reserved = [reserve(store, b"e").await, reserve(store, b"f").await, reserve(store, b"g").await];
    assert_eq!(fails_to_begin(store, b"h").await, StoreErrorKind::Full);
    for token in &reserved {
        store.commit(token).await.unwrap();
    }
}

/// Rules: W-11.
#[tokio::test]
async fn reserved_ids_are_bounded() {
    let Some(bench) = Bench::new().await else { return };
    let store = bench.store();
    let first = reserve(store, b"first").await;
    for n in 1..RedbStore::MAX_RESERVED {
        reserve(store, &n.to_le_bytes()).await;
    }
    assert_eq!(fails_to_begin(store, b"one more").await, StoreErrorKind::Full);
    bench.advance(LEASE).await;
    reserve(store, b"one more").await;
    // Its reservation made room, and it was handled all the same.
    store.commit(&first).await.unwrap();
    assert!(is_committed(store, b"first").await);
}

/// Rules: W-14.
#[tokio::test]
async fn a_file_is_open_once_and_of_its_own_kind() {
    let Some(bench) = Bench::new().await else { return };
    let path = bench.folder.path().join("handled.redb");
    let error = RedbStore::open(&path, WINDOW).unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::InUse);
    let not_opened: &NotOpened = error.source().unwrap().downcast_ref().unwrap();
    assert_eq!(not_opened.path(), path);
    assert!(not_opened.source().unwrap().is::<redb::DatabaseError>());
    assert!(not_opened.to_string().contains("handled.redb"), "{not_opened}");
    let Bench { folder, store, .. } = bench;
    drop(store);
    RedbStore::open(&path, WINDOW).unwrap();

    let foreign = folder.path().join("foreign.redb");
    let database = Database::create(&foreign).unwrap();
    let transaction = database.begin_write().unwrap();
    transaction.open_table(TableDefinition::<u64, u64>::new("prices")).unwrap();
    transaction.commit().unwrap();
    drop(database);
    for _again in 0..2 {
        let error = RedbStore::open(&foreign, WINDOW).unwrap_err();
        assert!(error.source().unwrap().source().unwrap().is::<UnknownFormat>(), "{error:?}");
    }
}

#[tokio::test]
async fn a_damaged_file_is_unavailable() {
    let Some(bench) = Bench::new().await else { return };
    commit(bench.store(), b"a").await;
    let Bench { folder, store, .. } = bench;
    drop(store);
    let path = folder.path().join("handled.redb");
    let bytes = fs::read(&path).unwrap();
    let mut refused = 0;
    for page in (4_096..bytes.len()).step_by(4_096).take(40) {
        let mut damaged = bytes.clone();
        damaged[page..page + 16].iter_mut().for_each(|byte| *byte ^= 0xa5);
        fs::write(&path, &damaged).unwrap();
        // A page that is not in use may have any contents.
        if let Err(error) = RedbStore::open(&path, WINDOW) {
            assert_eq!(error.kind(), StoreErrorKind::Unavailable);
            assert!(error.source().unwrap().is::<NotOpened>(), "{error:?}");
            refused += 1;
        }
    }
    assert!(refused > 0);
}
