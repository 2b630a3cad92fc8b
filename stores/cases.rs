//! What each store of handled ids is held to, on a store and under a clock that its test binary has: `crate::Bench`.
//!
//! ```ignore
//! impl Bench {
//!     /// The shortest time that its clock can be told from. Time that passes by itself in a test is less than half of it.
//!     const TICK: Duration;
//!     /// A store without ids, that knows them for `WINDOW`; `None` without its server.
//!     async fn new() -> Option<Self>;
//!     fn store(&self) -> &Arc<impl DedupStore>;
//!     /// Opens the store anew, as the next process does.
//!     async fn reopen(&mut self);
//!     async fn advance(&self, time: Duration);
//! }
//! ```

use std::{sync::Arc, time::Duration};

use consign::{
    Disposition, Message,
    middleware::dedup::{Begin, DedupKey, DedupLayer, DedupStore, StoreErrorKind},
};
use tower::{BoxError, Layer, ServiceExt, service_fn};

use crate::Bench;

pub(crate) const WINDOW: Duration = Duration::from_secs(600);
pub(crate) const LEASE: Duration = Duration::from_secs(60);

pub(crate) async fn begin<S: DedupStore>(store: &S, id: &[u8]) -> Begin<S::Token> {
    store.begin(DedupKey::new("orders", id), LEASE).await.unwrap()
}

/// Reserves an id that is unknown. What has ended may be there for a moment, and has no time left.
pub(crate) async fn reserve<S: DedupStore>(store: &S, id: &[u8]) -> S::Token {
    let reserving = async {
        loop {
            match begin(store, id).await {
                Begin::New(token) => return token,
                Begin::InProgress { left } if left.is_zero() => tokio::task::yield_now().await,
                Begin::InProgress { left } => panic!("reserved for {left:?}"),
                Begin::Committed => panic!("committed"),
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(30), reserving).await.expect("an id whose time has ended")
}

pub(crate) async fn commit<S: DedupStore>(store: &S, id: &[u8]) {
    let token = reserve(store, id).await;
    store.commit(&token).await.unwrap();
}

pub(crate) async fn is_committed<S: DedupStore>(store: &S, id: &[u8]) -> bool {
    matches!(begin(store, id).await, Begin::Committed)
}

/// As long as can be told from all of it.
fn almost(time: Duration) -> Duration {
    time.saturating_sub(Bench::TICK)
}

/// Rules: W-01.
#[tokio::test]
async fn a_layer_knows_what_was_handled_before_its_store_was_opened() {
    let Some(mut bench) = Bench::new().await else { return };
    for (handled, duplicates) in [(1, 0), (0, 1)] {
        let layer = DedupLayer::new(Arc::clone(bench.store()), "orders");
        let stats = layer.stats();
        let stack = layer.layer(service_fn(async |_: Message| Ok::<_, BoxError>(Disposition::Complete)));
        let message = Message::builder().message_id("a").build("body").unwrap();
        assert_eq!(stack.oneshot(message).await.unwrap(), Disposition::Complete);
        assert_eq!((stats.handled(), stats.committed(), stats.duplicates()), (handled, handled, duplicates));
        drop(layer);
        bench.reopen().await;
    }
}

/// Rules: W-02.
#[tokio::test]
async fn ids_belong_to_their_scope() {
    let Some(bench) = Bench::new().await else { return };
    commit(bench.store(), b"a").await;
    let elsewhere = bench.store().begin(DedupKey::new("bills", b"a"), LEASE).await.unwrap();
    assert!(matches!(elsewhere, Begin::New(_)));
    assert!(is_committed(bench.store(), b"a").await);
}

/// Rules: W-04.
#[tokio::test]
async fn a_window_is_exact_and_does_not_slide() {
    let Some(mut bench) = Bench::new().await else { return };
    commit(bench.store(), b"a").await;
    for time in [WINDOW / 2, almost(WINDOW / 2)] {
        bench.advance(time).await;
        bench.reopen().await;
        assert!(is_committed(bench.store(), b"a").await);
    }
    bench.advance(Bench::TICK).await;
    // Its second window begins, and what is left of the first does not end it.
    commit(bench.store(), b"a").await;
    commit(bench.store(), b"b").await;
    bench.advance(almost(WINDOW)).await;
    assert!(is_committed(bench.store(), b"a").await);
    bench.advance(Bench::TICK).await;
    reserve(bench.store(), b"a").await;
}

/// Rules: W-04.
#[tokio::test]
async fn many_windows_that_end_at_once_are_exact_too() {
    let Some(bench) = Bench::new().await else { return };
    let store = bench.store();
    let ids: Vec<_> = (0..20_u32).map(u32::to_le_bytes).collect();
    for id in &ids {
        commit(store, id).await;
    }
    // The last first, while the others are still to be forgotten.
    bench.advance(WINDOW).await;
    for id in ids.iter().rev() {
        commit(store, id).await;
    }
    for id in &ids {
        assert!(is_committed(store, id).await, "its second window lasts");
    }
}

/// Rules: W-19.
#[tokio::test]
async fn a_lease_is_renewed_until_another_process_has_the_id() {
    let Some(bench) = Bench::new().await else { return };
    let store = bench.store();
    let token = reserve(store, b"a").await;
    for _ in 0..3 {
        bench.advance(almost(LEASE)).await;
        store.renew(&token, LEASE).await.unwrap();
    }
    assert!(matches!(begin(store, b"a").await, Begin::InProgress { .. }), "reserved for three leases");
    // An expired lease is renewed too, unless another process has the id.
    bench.advance(LEASE).await;
    store.renew(&token, LEASE).await.unwrap();
    assert!(matches!(begin(store, b"a").await, Begin::InProgress { .. }));
    bench.advance(LEASE).await;
    let other = reserve(store, b"a").await;
    assert_eq!(store.renew(&token, LEASE).await.unwrap_err().kind(), StoreErrorKind::Superseded);
    store.commit(&other).await.unwrap();
}

/// Rules: W-06.
#[tokio::test]
async fn a_forgotten_id_is_unknown_and_a_committed_id_is_not_forgotten() {
    let Some(mut bench) = Bench::new().await else { return };
    let forgotten = reserve(bench.store(), b"a").await;
    bench.store().forget(&forgotten).await.unwrap();
    bench.store().forget(&forgotten).await.unwrap();
    let again = reserve(bench.store(), b"a").await;
    bench.store().forget(&forgotten).await.unwrap();
    assert!(matches!(begin(bench.store(), b"a").await, Begin::InProgress { .. }), "another one's reservation");
    bench.store().commit(&again).await.unwrap();
    bench.store().forget(&again).await.unwrap();
    bench.reopen().await;
    assert!(is_committed(bench.store(), b"a").await);
}

/// Rules: W-07.
#[tokio::test(flavor = "multi_thread")]
async fn one_of_many_reserves_an_id_and_all_commits_arrive() {
    let Some(bench) = Bench::new().await else { return };
    let calls: Vec<_> = (0..2_000_u32)
        .map(|n| {
            let store = Arc::clone(bench.store());
            tokio::spawn(async move {
                let Begin::New(token) = begin(&store, &(n % 500).to_le_bytes()).await else { return 0 };
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
        assert!(is_committed(bench.store(), &n.to_le_bytes()).await);
    }
}

/// Rules: W-08.
#[tokio::test]
async fn a_lease_ends_by_itself() {
    let Some(bench) = Bench::new().await else { return };
    let store = bench.store();
    let first = reserve(store, b"a").await;
    bench.advance(almost(LEASE)).await;
    let Begin::InProgress { left } = begin(store, b"a").await else { panic!("its lease lasts") };
    assert!(left > Bench::TICK / 2 && left <= Bench::TICK, "{left:?}");
    bench.advance(Bench::TICK).await;
    let second = reserve(store, b"a").await;
    assert_eq!(store.commit(&first).await.unwrap_err().kind(), StoreErrorKind::Superseded);
    store.forget(&first).await.unwrap();
    assert!(matches!(begin(store, b"a").await, Begin::InProgress { .. }));
    // Late, and nobody else has it.
    bench.advance(LEASE).await;
    store.commit(&second).await.unwrap();
    store.commit(&second).await.unwrap();
    store.forget(&second).await.unwrap();
    assert!(is_committed(store, b"a").await);
    // It is what the first one wanted too.
    store.commit(&first).await.unwrap();
}
