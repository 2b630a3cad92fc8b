//! What a file knows while it is open, and after it was closed.
#![allow(clippy::unwrap_used)]

use std::{error::Error, sync::Arc, time::Duration};

use consign::{
    Disposition, Message,
    middleware::dedup::{Begin, DedupLayer, DedupStore, Key, StoreError, StoreErrorKind},
    time::{ManualClock, Timestamp},
};
use consign_dedup_redb::{RedbStore, RedbToken, UnknownFormat};
use redb::{Database, TableDefinition};
use tempfile::TempDir;
use tower::{BoxError, Layer, ServiceExt, service_fn};

const WINDOW: Duration = Duration::from_secs(600);
const LEASE: Duration = Duration::from_secs(60);

type Store = RedbStore<Arc<ManualClock>>;

struct Folder {
    folder: TempDir,
    clock: Arc<ManualClock>,
}

impl Folder {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_000_000)));
        Self { folder: tempfile::tempdir().unwrap(), clock }
    }

    fn open(&self) -> Store {
        self.open_with(RedbStore::MAX_IDS)
    }

    fn open_with(&self, max: u64) -> Store {
        let builder = RedbStore::builder(WINDOW).max_ids(max).clock(Arc::clone(&self.clock));
        builder.open(self.folder.path().join("handled.redb")).unwrap()
    }
}

async fn begin(store: &Store, id: &[u8]) -> Result<Begin<RedbToken>, StoreError> {
    store.begin(Key::new("orders", id), LEASE).await
}

async fn reserve(store: &Store, id: &[u8]) -> RedbToken {
    match begin(store, id).await.unwrap() {
        Begin::New(token) => token,
        known => panic!("{known:?}"),
    }
}

async fn commit(store: &Store, id: &[u8]) {
    let token = reserve(store, id).await;
    store.commit(&token).await.unwrap();
}

async fn is_committed(store: &Store, id: &[u8]) -> bool {
    matches!(begin(store, id).await.unwrap(), Begin::Committed)
}

#[tokio::test]
async fn w_13_what_was_committed_is_known_when_the_file_is_opened_again() {
    let folder = Folder::new();
    let store = folder.open();
    commit(&store, b"committed").await;
    let forgotten = reserve(&store, b"forgotten").await;
    store.forget(&forgotten).await.unwrap();
    let _reserved = reserve(&store, b"reserved").await;
    drop(store);

    let store = folder.open();
    assert!(is_committed(&store, b"committed").await);
    reserve(&store, b"forgotten").await;
    // Nobody is handling it: the process that was is gone.
    reserve(&store, b"reserved").await;
    let elsewhere = store.begin(Key::new("bills", b"committed"), LEASE).await.unwrap();
    assert!(matches!(elsewhere, Begin::New(_)), "another scope");
}

#[tokio::test]
async fn w_04_a_file_has_exact_windows() {
    let folder = Folder::new();
    let store = folder.open();
    commit(&store, b"a").await;
    folder.clock.advance(Duration::from_millis(599_999));
    drop(store);
    let store = folder.open();
    assert!(is_committed(&store, b"a").await);
    folder.clock.advance(Duration::from_millis(1));
    // Its second window begins, and what is left of the first does not end it.
    commit(&store, b"a").await;
    commit(&store, b"b").await;
    folder.clock.advance(Duration::from_millis(599_999));
    assert!(is_committed(&store, b"a").await);
    folder.clock.advance(Duration::from_millis(1));
    reserve(&store, b"a").await;
}

#[tokio::test]
async fn w_04_many_windows_of_a_file_that_end_at_once_are_exact_too() {
    let folder = Folder::new();
    let store = folder.open();
    let ids: Vec<_> = (0..20_u32).map(u32::to_le_bytes).collect();
    for id in &ids {
        commit(&store, id).await;
    }
    // The last first, while the others are still to be forgotten.
    folder.clock.advance(WINDOW);
    for id in ids.iter().rev() {
        commit(&store, id).await;
    }
    for id in &ids {
        assert!(is_committed(&store, id).await, "its second window lasts");
    }
}

#[tokio::test]
async fn w_08_a_lease_in_a_file_ends_by_itself() {
    let folder = Folder::new();
    let store = folder.open();
    let first = reserve(&store, b"a").await;
    folder.clock.advance(Duration::from_millis(59_999));
    let left = Duration::from_millis(1);
    assert!(matches!(begin(&store, b"a").await.unwrap(), Begin::InProgress { left: found } if found == left));
    folder.clock.advance(left);
    let second = reserve(&store, b"a").await;
    assert_eq!(store.commit(&first).await.unwrap_err().kind(), StoreErrorKind::Superseded);
    store.forget(&first).await.unwrap();
    assert!(matches!(begin(&store, b"a").await.unwrap(), Begin::InProgress { .. }));
    // Late, and nobody else has it.
    folder.clock.advance(LEASE);
    store.commit(&second).await.unwrap();
    store.commit(&second).await.unwrap();
    store.forget(&second).await.unwrap();
    assert!(is_committed(&store, b"a").await);
}

#[tokio::test]
async fn w_11_a_full_file_refuses_and_has_room_when_the_first_window_is_over() {
    let folder = Folder::new();
    let store = folder.open_with(3);
    for id in [b"a", b"b", b"c"] {
        commit(&store, id).await;
        folder.clock.advance(Duration::from_millis(1));
    }
    assert_eq!(begin(&store, b"d").await.unwrap_err().kind(), StoreErrorKind::Full);
    for id in [b"a", b"b", b"c"] {
        assert!(is_committed(&store, id).await);
    }
    folder.clock.advance(Duration::from_millis(599_997));
    let (d, e) = (reserve(&store, b"d").await, reserve(&store, b"e").await);
    store.commit(&d).await.unwrap();
    assert_eq!(store.commit(&e).await.unwrap_err().kind(), StoreErrorKind::Full);
    assert!(is_committed(&store, b"b").await);
}

#[tokio::test]
async fn w_11_what_is_reserved_has_a_bound() {
    let folder = Folder::new();
    let store = folder.open();
    let first = reserve(&store, b"first").await;
    for n in 1..RedbStore::MAX_RESERVED {
        reserve(&store, &n.to_le_bytes()).await;
    }
    assert_eq!(begin(&store, b"one more").await.unwrap_err().kind(), StoreErrorKind::Full);
    folder.clock.advance(LEASE);
    reserve(&store, b"one more").await;
    // Its reservation made room, and it was handled all the same.
    store.commit(&first).await.unwrap();
    assert!(is_committed(&store, b"first").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn w_13_one_of_many_reserves_an_id_and_all_commits_arrive() {
    let folder = Folder::new();
    let store = Arc::new(folder.open());
    let calls: Vec<_> = (0..2_000_u32)
        .map(|n| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                let id = (n % 500).to_le_bytes();
                let Begin::New(token) = begin(&store, &id).await.unwrap() else { return 0 };
                store.commit(&token).await.unwrap();
                1
            })
        })
        .collect();
    let mut reserved = 0;
    for call in calls {
        reserved += call.await.unwrap();
    }
    assert_eq!(reserved, 500);
    for n in 0..500_u32 {
        assert!(is_committed(&store, &n.to_le_bytes()).await);
    }
}

#[tokio::test]
async fn w_01_a_layer_over_a_file_knows_what_was_handled_before_it_was_opened() {
    let folder = Folder::new();
    for (handled, duplicates) in [(1, 0), (0, 1)] {
        let layer = DedupLayer::new(folder.open(), "orders");
        let stats = layer.stats();
        let stack = layer.layer(service_fn(async |_: Message| Ok::<_, BoxError>(Disposition::Complete)));
        let message = Message::builder().message_id("a").build("body").unwrap();
        assert_eq!(stack.oneshot(message).await.unwrap(), Disposition::Complete);
        assert_eq!((stats.handled(), stats.committed(), stats.duplicates()), (handled, handled, duplicates));
    }
}

#[tokio::test]
async fn w_14_a_file_is_open_once_and_of_its_own_kind() {
    let folder = Folder::new();
    let path = folder.folder.path().join("handled.redb");
    let store = folder.open();
    let error = RedbStore::open(&path, WINDOW).unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unavailable);
    assert!(error.source().unwrap().is::<redb::DatabaseError>());
    drop(store);
    RedbStore::open(&path, WINDOW).unwrap();

    let foreign = folder.folder.path().join("foreign.redb");
    let database = Database::create(&foreign).unwrap();
    let transaction = database.begin_write().unwrap();
    transaction.open_table(TableDefinition::<u64, u64>::new("prices")).unwrap();
    transaction.commit().unwrap();
    drop(database);
    for _again in 0..2 {
        let error = RedbStore::open(&foreign, WINDOW).unwrap_err();
        assert!(error.source().unwrap().is::<UnknownFormat>(), "{error:?}");
    }
}
