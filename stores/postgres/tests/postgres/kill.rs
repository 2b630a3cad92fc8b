//! A process that dies around the commit of its handler's transaction.

use std::{env, process::Command};

use consign::{
    Disposition, Message,
    middleware::dedup::{DedupKey, DedupLayer},
};
use consign_store_postgres::{Claim, PostgresStore};
use tower::{BoxError, Layer, ServiceExt, service_fn};

use crate::{
    cases::LEASE,
    support::{self, Bench},
};

/// The table of a child, and where it dies.
const TABLE: &str = "CONSIGN_DEDUP_TABLE";
const DIES: &str = "CONSIGN_DEDUP_DIES";

#[derive(Clone, Copy, Debug, PartialEq)]
enum Dies {
    BeforeCommit,
    AfterCommit,
    Never,
}

/// Handles the message, whose effect is a row. Counts duplicates.
async fn deliver(bench: &Bench, dies: Dies) -> u64 {
    let (store, add_effect) = (PostgresStore::clone(bench.store()), bench.add_effect());
    let layer = DedupLayer::new(store.clone(), "orders").lease(LEASE);
    let stack = layer.layer(service_fn(move |_: Message| {
        let (store, add_effect) = (store.clone(), add_effect.clone());
        async move {
            let mut client = support::client().await;
            let transaction = client.transaction().await?;
            if store.commit_in(&transaction, DedupKey::new("orders", b"a")).await? == Claim::New {
                transaction.execute(&add_effect, &[&"a"]).await?;
                if dies == Dies::BeforeCommit {
                    std::process::abort();
                }
                transaction.commit().await?;
                if dies == Dies::AfterCommit {
                    std::process::abort();
                }
            }
            Ok::<_, BoxError>(Disposition::Complete)
        }
    }));
    let message = Message::builder().message_id("a").build("body").unwrap();
    assert_eq!(stack.oneshot(message).await.unwrap(), Disposition::Complete);
    layer.stats().duplicates()
}

/// Rules: W-33.
#[tokio::test]
async fn a_process_that_dies_around_the_commit_leaves_one_effect() {
    if let (Ok(table), Ok(dies)) = (env::var(TABLE), env::var(DIES)) {
        let dies = if dies == "before" { Dies::BeforeCommit } else { Dies::AfterCommit };
        deliver(&Bench::existing(table).await, dies).await;
        unreachable!("it has died");
    }
    for (dies, effects, duplicates) in [("before", 0, 0), ("after", 1, 1)] {
        let Some(bench) = Bench::new().await else { return };
        let this_test = ["--exact", "kill::a_process_that_dies_around_the_commit_leaves_one_effect"];
        let mut child = Command::new(env::current_exe().unwrap());
        let child = child.args(this_test).env(TABLE, &bench.name).env(DIES, dies).output().unwrap();
        assert_eq!(child.status.code(), None, "{child:?}");
        assert_eq!(bench.effects().await, (vec![], effects), "{dies}");

        bench.advance(LEASE).await;
        assert_eq!(deliver(&bench, Dies::Never).await, duplicates, "{dies}");
        assert_eq!(bench.effects().await, (vec![], 1), "{dies}");
    }
}
