//! A database without the tables.

use std::time::Duration;

use consign::broker::Broker;
use consign_conformance::log::Lines;
use consign_outbox_postgres::{Outbox, Table};

use crate::support::{Bench, Running};

#[tokio::test]
async fn a_table_that_is_missing_is_named() {
    let Some(bench) = Bench::new().await else { return };
    for missing in ["nowhere", "no_such_schema.outbox"] {
        let outbox = Outbox::new(Table::new(missing).unwrap());
        let error = outbox.waiting(&bench.client).await.unwrap_err().to_string();
        assert!(error.contains(missing) && error.contains("Outbox::create_table"), "{error}");
    }
    let created = Outbox::new(Table::new("no_such_schema.outbox").unwrap()).create_table(&bench.client).await;
    let error = created.unwrap_err().to_string();
    assert!(error.contains("no_such_schema") && error.contains("3F000"), "{error}");
    let (lines, _guard) = Lines::capture();
    bench.client.batch_execute(&format!("DROP TABLE {}_version", bench.name)).await.unwrap();
    let relay = Running::start(bench.relay(Broker::new()));
    while lines.of("consign::outbox").is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    relay.stop().await;
    let line = lines.of("consign::outbox").remove(0);
    assert!(line.contains(&format!("{}_version", bench.name)) && line.contains("Outbox::create_table"), "{line}");
    bench.client.batch_execute(&format!("DROP TABLE {}", bench.name)).await.unwrap();
}
