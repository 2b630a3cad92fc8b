//! The table, and what is in it.

use std::error::Error;

use consign::middleware::dedup::{DedupStore, StoreErrorKind};
use consign_store_postgres::{
    PostgresStore, Table,
    tokio_postgres::{self, NoTls, error::SqlState},
};
use futures_util::future::join_all;

use crate::{
    cases::{WINDOW, commit, is_committed, reserve},
    support::{self, Bench},
};

/// Rules: W-31.
#[tokio::test]
async fn a_table_may_be_made_by_many_at_once_and_has_one_secret() {
    let Some(bench) = Bench::new().await else { return };
    let name = format!("{}_shared", bench.name);
    let table = Table::new(&format!("public.{name}")).unwrap();
    let open = || PostgresStore::builder(WINDOW).table(table.clone()).create_table().connect(support::config(), NoTls);
    let stores = join_all((0..8).map(|_| open())).await;
    commit(stores[0].as_ref().unwrap(), b"a").await;
    for store in &stores {
        assert!(is_committed(store.as_ref().unwrap(), b"a").await);
    }
    // A migration may make it, again and again.
    bench.client.batch_execute(&table.sql()).await.unwrap();
    assert!(is_committed(&open().await.unwrap(), b"a").await);
    bench.client.batch_execute(&format!("DROP TABLE {name}, {name}_secret")).await.unwrap();
}

/// Rules: W-31.
#[tokio::test]
async fn another_table_has_another_secret() {
    let Some(one) = Bench::new().await else { return };
    let Some(other) = Bench::new().await else { return };
    for bench in [&one, &other] {
        commit(bench.store(), b"a").await;
    }
    let digests = format!("SELECT digest FROM {} UNION SELECT digest FROM {}", one.name, other.name);
    assert_eq!(one.client.query(&digests, &[]).await.unwrap().len(), 2);
}

/// Rules: W-31.
#[tokio::test]
async fn a_missing_table_is_reported_at_once() {
    if support::connect().await.is_none() {
        return;
    }
    let builder = PostgresStore::builder(WINDOW).table(Table::new("there_is_no_such_table").unwrap());
    let error = builder.connect(support::config(), NoTls).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unavailable);
    let source: &tokio_postgres::Error = error.source().unwrap().downcast_ref().unwrap();
    assert_eq!(source.code(), Some(&SqlState::UNDEFINED_TABLE));
}

/// Rules: W-31.
#[tokio::test]
async fn the_times_are_of_the_database() {
    let Some(bench) = Bench::new().await else { return };
    let until = format!("SELECT extract(epoch FROM until - clock_timestamp())::float8 FROM {}", bench.name);
    let token = reserve(bench.store(), b"a").await;
    let lease: f64 = bench.client.query_one(&until, &[]).await.unwrap().get(0);
    bench.store().commit(&token).await.unwrap();
    let window: f64 = bench.client.query_one(&until, &[]).await.unwrap().get(0);
    assert!(lease > 40.0 && lease <= 60.0 && window > 580.0 && window <= 600.0, "{lease} s, {window} s");
}

/// Rules: W-31.
#[tokio::test]
async fn expired_ids_are_deleted_in_portions() {
    const OLD: i64 = 300;
    let Some(bench) = Bench::new().await else { return };
    for n in 0..OLD / 2 {
        commit(bench.store(), &n.to_le_bytes()).await;
        reserve(bench.store(), &(OLD + n).to_le_bytes()).await;
    }
    assert_eq!(bench.ids().await, OLD);
    bench.advance(WINDOW).await;
    let mut before = OLD;
    for n in 0..100_i64 {
        reserve(bench.store(), &(1_000 + n).to_le_bytes()).await;
        let ids = bench.ids().await;
        assert!(ids > before - 64, "{before} became {ids}");
        before = ids;
    }
    assert_eq!(before, 100, "and nothing else was");
}
