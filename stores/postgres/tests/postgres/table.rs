//! The table, and what is in it.

use std::{error::Error, time::Duration};

use consign::{
    middleware::dedup::{DedupKey, DedupStore, StoreErrorKind},
    transport::log_limit,
};
use consign_conformance::log::Lines;
use consign_store_postgres::{
    Builder, Claim, PostgresStore, Table,
    tokio_postgres::{self, NoTls, error::SqlState},
};
use futures_util::future::join_all;
use tokio::time::{sleep, timeout};

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
    let text = error.to_string();
    assert!(text.contains("there_is_no_such_table") && text.contains("`Builder::create_table`"), "{text}");
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

/// Rules: W-31.
#[tokio::test]
async fn a_store_is_opened_beside_a_transaction_that_has_committed_an_id() {
    const LIMIT: Duration = Duration::from_secs(1);
    let Some(bench) = Bench::new().await else { return };
    let mut client = support::client().await;
    let transaction = client.transaction().await.unwrap();
    let claim = bench.store().commit_in(&transaction, DedupKey::new("orders", b"a")).await.unwrap();
    assert_eq!(claim, Claim::New);
    let opened = tokio::spawn(timeout(LIMIT, {
        let table = Table::new(&bench.name).unwrap();
        PostgresStore::builder(WINDOW).table(table).create_table().connect(support::config(), NoTls)
    }));
    // Long enough for the other one to wait for a lock, if it takes one.
    sleep(LIMIT / 4).await;
    let committed = timeout(LIMIT, commit(bench.store(), b"b")).await;
    let opened = opened.await.unwrap();
    transaction.commit().await.unwrap();
    committed.expect("it waits for no lock");
    opened.expect("it waits for no lock").unwrap();
}

/// Rules: W-31.
#[tokio::test]
async fn a_part_that_is_missing_is_created() {
    let Some(bench) = Bench::new().await else { return };
    let name = &bench.name;
    let exists = format!("SELECT to_regclass('{name}_until') IS NOT NULL AND EXISTS (SELECT FROM {name}_secret)");
    for missing in
        [format!("DROP INDEX {name}_until"), format!("DROP TABLE {name}_secret"), format!("DELETE FROM {name}_secret")]
    {
        bench.client.batch_execute(&missing).await.unwrap();
        let store = bench.open(Builder::create_table).await;
        assert!(bench.client.query_one(&exists, &[]).await.unwrap().get::<_, bool>(0), "{missing}");
        reserve(&store, missing.as_bytes()).await;
    }
    bench.client.batch_execute(&format!("DELETE FROM {name}_secret")).await.unwrap();
    let builder = PostgresStore::builder(WINDOW).table(Table::new(name).unwrap());
    let error = builder.connect(support::config(), NoTls).await.unwrap_err();
    let text = error.source().unwrap().to_string();
    assert!(text.contains("consign_handled_secret") && text.contains("Table::sql"), "{text}");
}

/// Rules: W-31.
#[tokio::test]
async fn that_ids_are_not_deleted_is_logged_with_the_table_and_a_limit() {
    let (lines, _guard) = Lines::capture();
    let Some(bench) = Bench::new().await else { return };
    let name = &bench.name;
    let refuse = format!(
        "CREATE FUNCTION {name}_refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
           RAISE EXCEPTION USING ERRCODE = '42501'; END $$; \
         CREATE TRIGGER refuse BEFORE DELETE ON {name} EXECUTE FUNCTION {name}_refuse()"
    );
    bench.client.batch_execute(&refuse).await.unwrap();
    let quoted = format!("\"{name}\"");
    let is_limited = || lines.of("consign::middleware::dedup").iter().any(|line| line.ends_with(" suppressed=1"));
    let mut n = 0_i64;
    // A machine may be too slow for the limit now and then.
    while !is_limited() && n < 16 * 40 {
        for _ in 0..10 {
            let _ = log_limit(&quoted, "NotCleaned");
        }
        for _ in 0..2 {
            // One in 16 deletes.
            for _ in 0..16 {
                reserve(bench.store(), &n.to_le_bytes()).await;
                n += 1;
            }
            sleep(Duration::from_millis(1_100)).await;
        }
    }
    bench.client.batch_execute(&format!("DROP FUNCTION {name}_refuse CASCADE")).await.unwrap();
    let logged = lines.of("consign::middleware::dedup");
    assert!(is_limited(), "{logged:?}");
    assert!(logged[0].contains(&format!("table=\"\\\"{name}\\\"\"")) && logged[0].contains("42501"), "{logged:?}");
}
