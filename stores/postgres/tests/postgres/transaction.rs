//! An id that is committed with the effect of its handler.

use std::{error::Error, sync::Arc, time::Duration};

use consign::middleware::dedup::{Begin, DedupKey, DedupStore, StoreError, StoreErrorKind};
use consign_store_postgres::{
    Claim, PostgresStore,
    tokio_postgres::{self, Client, IsolationLevel, error::SqlState},
};
use tokio::time::sleep;

use crate::{
    cases::{LEASE, WINDOW, begin, commit, is_committed, reserve},
    support::{self, Bench},
};

const ID: &[u8] = b"a";

async fn claim(store: &PostgresStore, transaction: &tokio_postgres::Transaction<'_>) -> Result<Claim, StoreError> {
    store.commit_in(transaction, DedupKey::new("orders", ID)).await
}

/// A handler whose effect is a row.
async fn handle(bench: &Bench, client: &mut Client) -> Claim {
    let transaction = client.transaction().await.unwrap();
    let claim = claim(bench.store(), &transaction).await.unwrap();
    if claim == Claim::New {
        transaction.execute(&bench.add_effect(), &[&"a"]).await.unwrap();
        transaction.commit().await.unwrap();
    }
    claim
}

/// Waits until a connection waits for a lock that another one has.
async fn somebody_waits(bench: &Bench, pid: i32) {
    let waits = "SELECT pg_blocking_pids($1) <> '{}'";
    while !bench.client.query_one(waits, &[&pid]).await.unwrap().get::<_, bool>(0) {
        sleep(Duration::from_millis(1)).await;
    }
}

/// The row of the only id, with who has written or locked it.
async fn row(bench: &Bench) -> String {
    let row = format!("SELECT (ids, xmin, xmax)::text FROM {} AS ids", bench.name);
    bench.client.query_one(&row, &[]).await.unwrap().get(0)
}

async fn pid(client: &Client) -> i32 {
    client.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0)
}

/// Rules: W-31, W-32.
#[tokio::test]
async fn commits_in_transactions_alone_delete_expired_ids() {
    const OLD: i64 = 100;
    let Some(bench) = Bench::new().await else { return };
    let mut client = support::client().await;
    for n in 0..OLD {
        commit(bench.store(), &n.to_le_bytes()).await;
    }
    bench.advance(WINDOW).await;
    for n in 0..64_i64 {
        let transaction = client.transaction().await.unwrap();
        let id = (1_000 + n).to_le_bytes();
        let claim = bench.store().commit_in(&transaction, DedupKey::new("orders", &id)).await.unwrap();
        assert_eq!(claim, Claim::New);
        transaction.commit().await.unwrap();
    }
    let expired = format!("SELECT count(*) FROM {} WHERE until <= clock_timestamp()", bench.name);
    let deleted = async {
        while bench.client.query_one(&expired, &[]).await.unwrap().get::<_, i64>(0) > 0 {
            sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), deleted).await.unwrap();
    assert_eq!(bench.ids().await, 64, "and nothing else was");
}

/// Rules: W-32.
#[tokio::test]
async fn the_id_is_committed_with_the_effect_or_not_at_all() {
    let Some(bench) = Bench::new().await else { return };
    let mut client = support::client().await;
    let token = reserve(bench.store(), ID).await;
    let transaction = client.transaction().await.unwrap();
    assert_eq!(claim(bench.store(), &transaction).await.unwrap(), Claim::New);
    assert_eq!(claim(bench.store(), &transaction).await.unwrap(), Claim::Duplicate, "once a transaction");
    assert!(matches!(begin(bench.store(), ID).await, Begin::InProgress { .. }), "not before its commit");
    transaction.rollback().await.unwrap();
    assert!(matches!(begin(bench.store(), ID).await, Begin::InProgress { .. }), "it is reserved as it was");
    assert_eq!(handle(&bench, &mut client).await, Claim::New);
    assert!(is_committed(bench.store(), ID).await);
    assert_eq!(handle(&bench, &mut client).await, Claim::Duplicate);

    // What the layer does after it, whatever the handler has answered, changes nothing.
    bench.advance(WINDOW / 2).await;
    let before = row(&bench).await;
    bench.store().commit(&token).await.unwrap();
    bench.store().forget(&token).await.unwrap();
    assert!(is_committed(bench.store(), ID).await);
    assert_eq!(row(&bench).await, before, "nor does it write");
    bench.advance(WINDOW / 2).await;
    assert_eq!(handle(&bench, &mut client).await, Claim::New, "its window began with the transaction");
}

/// Rules: W-32.
#[tokio::test]
async fn without_a_reservation_it_is_the_same() {
    let Some(bench) = Bench::new().await else { return };
    let mut client = support::client().await;
    assert_eq!([handle(&bench, &mut client).await, handle(&bench, &mut client).await], [Claim::New, Claim::Duplicate]);
    commit(bench.store(), b"b").await;
    let transaction = client.transaction().await.unwrap();
    let other = bench.store().commit_in(&transaction, DedupKey::new("orders", b"b")).await.unwrap();
    assert_eq!(other, Claim::Duplicate, "the layer's commit counts too");
}

/// Rules: W-32.
#[tokio::test]
async fn of_two_transactions_the_second_waits_for_the_first() {
    for ends_well in [true, false] {
        let Some(bench) = Bench::new().await else { return };
        let (mut one, mut other) = (support::client().await, support::client().await);
        let first = one.transaction().await.unwrap();
        assert_eq!(claim(bench.store(), &first).await.unwrap(), Claim::New);
        let pid = pid(&other).await;
        let end = async {
            somebody_waits(&bench, pid).await;
            if ends_well { first.commit().await } else { first.rollback().await }
        };
        let (second, ended) = tokio::join!(handle(&bench, &mut other), end);
        ended.unwrap();
        assert_eq!(second, if ends_well { Claim::Duplicate } else { Claim::New });
    }
}

/// Rules: W-32.
#[tokio::test]
async fn a_superseded_handler_and_its_successor_have_one_effect() {
    for first_is_first in [true, false] {
        let Some(bench) = Bench::new().await else { return };
        let mut client = support::client().await;
        let first = reserve(bench.store(), ID).await;
        bench.advance(LEASE).await;
        let second = reserve(bench.store(), ID).await;
        let order = if first_is_first { [&first, &second] } else { [&second, &first] };
        for (token, claim) in order.into_iter().zip([Claim::New, Claim::Duplicate]) {
            assert_eq!(handle(&bench, &mut client).await, claim);
            bench.store().commit(token).await.unwrap();
        }
        assert_eq!(bench.effects().await, (vec![], 1));
    }
}

/// Rules: W-08.
#[tokio::test]
async fn a_commit_that_is_superseded_while_it_waits_fails() {
    let Some(bench) = Bench::new().await else { return };
    let mut client = support::client().await;
    let token = reserve(bench.store(), ID).await;
    let transaction = client.transaction().await.unwrap();
    transaction.execute(&format!("UPDATE {} SET holder = holder + 1", bench.name), &[]).await.unwrap();
    let end = async {
        while bench.requests_that_wait().await == 0 {
            sleep(Duration::from_millis(1)).await;
        }
        transaction.commit().await.unwrap();
    };
    let (committed, ()) = tokio::join!(bench.store().commit(&token), end);
    assert_eq!(committed.unwrap_err().kind(), StoreErrorKind::Superseded);
    assert!(!is_committed(bench.store(), ID).await);
}

/// Rules: W-32.
#[tokio::test]
async fn above_read_committed_the_second_fails() {
    let Some(bench) = Bench::new().await else { return };
    let (mut one, mut other) = (support::client().await, support::client().await);
    let second = other.build_transaction().isolation_level(IsolationLevel::RepeatableRead).start().await.unwrap();
    second.query("SELECT", &[]).await.unwrap();
    reserve(bench.store(), ID).await;
    assert_eq!(handle(&bench, &mut one).await, Claim::New);
    let error = claim(bench.store(), &second).await.unwrap_err();
    let source: &tokio_postgres::Error = error.source().unwrap().downcast_ref().unwrap();
    assert_eq!(source.code(), Some(&SqlState::T_R_SERIALIZATION_FAILURE));
}

/// Rules: W-34.
#[tokio::test]
async fn while_its_transaction_is_open_an_id_is_in_progress_whatever_its_lease() {
    for is_reserved in [true, false] {
        let Some(bench) = Bench::new().await else { return };
        let mut client = support::client().await;
        if is_reserved {
            reserve(bench.store(), ID).await;
            bench.advance(LEASE).await;
        }
        let transaction = client.transaction().await.unwrap();
        assert_eq!(claim(bench.store(), &transaction).await.unwrap(), Claim::New);
        let store = Arc::clone(bench.store());
        let begun = tokio::spawn(async move { begin(&store, ID).await });
        let mut has_waited = false;
        while !begun.is_finished() {
            has_waited |= bench.requests_that_wait().await > 0;
        }
        let begun = begun.await.unwrap();
        assert!(matches!(begun, Begin::InProgress { left: Duration::ZERO }), "{begun:?}, {is_reserved}");
        // Where the row is new there is nothing to look at before.
        assert_eq!(has_waited, !is_reserved);
        drop(transaction);
        while let Begin::InProgress { left } = begin(bench.store(), ID).await {
            assert!(left.is_zero(), "it is rolled back when its connection comes to it");
        }
    }
}
