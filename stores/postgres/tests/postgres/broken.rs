//! Connections that break, and a database that is not there or says nothing.

use std::{error::Error, future::Future, sync::Arc, time::Duration};

use consign::middleware::dedup::{Begin, DedupStore, StoreError, StoreErrorKind};
use consign_store_postgres::{
    NoAnswer, PostgresStore,
    tokio_postgres::{Config, NoTls},
};
use tokio::{net::TcpListener, time::sleep};

use crate::{
    cases::{WINDOW, begin, is_committed, reserve},
    support::{self, Bench},
};

/// Rules: W-35.
#[tokio::test]
async fn connections_that_were_lost_are_made_again() {
    let bench = Bench::new().await;
    let ended = async || assert!(bench.end_connections_of_stores().await > 0, "it had one");
    ended().await;
    let (token, forgotten) = (reserve(bench.store(), b"a").await, reserve(bench.store(), b"b").await);
    ended().await;
    bench.store().commit(&token).await.unwrap();
    ended().await;
    bench.store().forget(&forgotten).await.unwrap();
    ended().await;
    assert!(is_committed(bench.store(), b"a").await);
    reserve(bench.store(), b"b").await;
}

/// Has the table locked while something is done. The statements are prepared before, so that they wait when they are run.
async fn with_table_locked(bench: &Bench, done: impl Future<Output = ()>) {
    reserve(bench.store(), b"first").await;
    let mut client = support::client().await;
    let lock = client.transaction().await.unwrap();
    lock.batch_execute(&format!("LOCK TABLE {}", bench.name)).await.unwrap();
    done.await;
    lock.rollback().await.unwrap();
}

async fn wait_for_a_request(bench: &Bench) {
    while bench.requests_that_wait().await == 0 {
        sleep(Duration::from_millis(1)).await;
    }
}

/// Rules: W-35.
#[tokio::test]
async fn a_request_is_repeated_when_its_connection_is_lost() {
    let bench = Bench::new().await;
    let store = Arc::clone(bench.store());
    let mut token = None;
    with_table_locked(&bench, async {
        token = Some(tokio::spawn(async move { reserve(&store, b"a").await }));
        wait_for_a_request(&bench).await;
        assert_eq!(bench.end_connections_of_stores().await, 1);
        wait_for_a_request(&bench).await;
    })
    .await;
    bench.store().commit(&token.unwrap().await.unwrap()).await.unwrap();
    assert!(is_committed(bench.store(), b"a").await);
}

/// Rules: W-35.
#[tokio::test]
async fn an_unreported_reservation_is_forgotten() {
    let bench = Bench::new().await;
    let store = Arc::clone(bench.store());
    with_table_locked(&bench, async {
        let call = tokio::spawn(async move { begin(&store, b"a").await });
        wait_for_a_request(&bench).await;
        call.abort();
        assert!(call.await.unwrap_err().is_cancelled());
    })
    .await;
    // Long before the end of its lease.
    for _ in 0..1_000 {
        if matches!(begin(bench.store(), b"a").await, Begin::New(_)) {
            return;
        }
        sleep(Duration::from_millis(10)).await;
    }
    panic!("it is still reserved");
}

async fn connect(port: u16) -> StoreError {
    let mut config = Config::new();
    config.host("127.0.0.1").port(port).user("nobody");
    let builder = PostgresStore::builder(WINDOW).timeout(Duration::from_millis(800));
    builder.connect(config, NoTls).await.unwrap_err()
}

/// Rules: W-09.
#[tokio::test]
async fn a_database_that_is_not_there_or_says_nothing_is_unavailable() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let silent = connect(port).await;
    drop(listener);
    let gone = connect(port).await;
    assert_eq!((silent.kind(), gone.kind()), (StoreErrorKind::Unavailable, StoreErrorKind::Unavailable));
    assert_eq!(silent.source().unwrap().downcast_ref(), Some(&NoAnswer::TooLate));
    assert!(!gone.source().unwrap().is::<NoAnswer>());
}

/// Rules: W-09.
#[tokio::test]
async fn a_request_that_waits_too_long_is_unavailable_and_the_next_one_has_another_connection() {
    let bench = Bench::new().await;
    let impatient = bench.open(|builder| builder.connections(1).timeout(Duration::from_millis(800))).await;
    let token = reserve(&impatient, b"a").await;
    with_table_locked(&bench, async {
        let error = impatient.commit(&token).await.unwrap_err();
        assert_eq!(error.source().unwrap().downcast_ref(), Some(&NoAnswer::TooLate));
    })
    .await;
    while impatient.commit(&token).await.is_err() {}
    assert!(is_committed(bench.store(), b"a").await);
}
