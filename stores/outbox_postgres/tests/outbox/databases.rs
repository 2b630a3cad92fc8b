//! Databases of other encodings, and roles with few privileges, on a server of the test's own.

use std::time::Duration;

use consign::{administration::QueueSettings, broker::Broker, transport::DynTransport};
use consign_conformance::log::Lines;
use consign_outbox_postgres::{
    Outbox, OutboxErrorKind, Relay, Table,
    tokio_postgres::{Client, Config, NoTls, error::SqlState},
};

use crate::{
    cluster::Cluster,
    support::{Running, message},
};

fn config(cluster: &Cluster, user: &str, database: &str) -> Config {
    let mut config: Config = Cluster::url(cluster.address()).parse().unwrap();
    config.user(user).dbname(database);
    config
}

async fn client(config: &Config) -> Client {
    let (client, connection) = config.connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Rules: X-46.
#[tokio::test]
async fn a_database_that_is_not_utf8_is_an_error_of_the_creation_and_of_a_relay() {
    let Some(cluster) = Cluster::start() else { return };
    let owner = client(&config(&cluster, "test", "postgres")).await;
    for encoding in ["LATIN1", "SQL_ASCII"] {
        let sql = format!("CREATE DATABASE \"{encoding}\" TEMPLATE template0 ENCODING '{encoding}' LOCALE 'C'");
        owner.batch_execute(&sql).await.unwrap();
        let config = config(&cluster, "test", encoding);
        let client = client(&config).await;
        let outbox = Outbox::default();
        let created = outbox.create_table(&client).await.unwrap_err();
        assert!(created.to_string().contains(encoding), "{created}");
        let relay = Relay::new(outbox, config, NoTls, DynTransport::from(Broker::new()));
        let ran = relay.run_until(std::future::pending()).await.unwrap_err();
        assert_eq!((created.kind(), ran.kind()), (OutboxErrorKind::Encoding, OutboxErrorKind::Encoding));
        let migrated = client.batch_execute(&Table::default().sql()).await.unwrap_err();
        assert_eq!(migrated.code(), Some(&SqlState::FEATURE_NOT_SUPPORTED));
    }
}

/// The statements of the page that grant what an application and a relay need.
fn grants() -> &'static str {
    let page = include_str!("../../../../docs/outbox.md");
    let (_, block) = page.split_once("```sql\nGRANT").unwrap();
    &page[page.len() - block.len() - "GRANT".len()..][..block.find("```").unwrap() + "GRANT".len()]
}

/// Rules: X-40, X-43.
/// The relay begins without a privilege, and goes on when it has them.
#[tokio::test]
async fn the_privileges_of_the_page_are_enough() {
    let Some(cluster) = Cluster::start() else { return };
    let (lines, _guard) = Lines::capture();
    let owner = client(&config(&cluster, "test", "postgres")).await;
    let outbox = Outbox::default();
    outbox.create_table(&owner).await.unwrap();
    owner.batch_execute("CREATE ROLE shop LOGIN; CREATE ROLE relay LOGIN").await.unwrap();
    let broker = Broker::new();
    broker.create_queue("orders", QueueSettings::default()).unwrap();
    let config_of_relay = config(&cluster, "relay", "postgres");
    let relay = Relay::new(outbox.clone(), config_of_relay, NoTls, DynTransport::from(broker.clone()));
    let running = Running::start(relay);
    while lines.of("consign::outbox").is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let line = lines.of("consign::outbox").remove(0);
    assert!(line.contains("42501: permission denied for table consign_outbox_version"), "{line}");

    owner.batch_execute(grants()).await.unwrap();
    let mut shop = client(&config(&cluster, "shop", "postgres")).await;
    let transaction = shop.transaction().await.unwrap();
    for destination in ["orders", "missing"] {
        outbox.add(&transaction, destination, &message(destination)).await.unwrap();
    }
    transaction.commit().await.unwrap();
    while outbox.waiting(&owner).await.unwrap() > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let relayed = running.stop().await;
    assert_eq!((relayed.sent, relayed.refused), (1, 1));
    let relay = client(&config(&cluster, "relay", "postgres")).await;
    let refused = outbox.refused(&relay, 10).await.unwrap();
    assert_eq!(outbox.retry_refused(&relay, &[refused[0].id]).await.unwrap(), 1);
    assert_eq!(outbox.refuse(&relay, &[refused[0].id]).await.unwrap(), 1);
    assert_eq!(outbox.delete_refused(&relay, Duration::ZERO).await.unwrap(), 1);
    let denied = outbox.waiting(&shop).await.unwrap_err();
    assert!(denied.to_string().contains("permission denied for table consign_outbox"), "{denied}");
}
