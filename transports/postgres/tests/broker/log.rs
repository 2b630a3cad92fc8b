//! What this transport logs of its connections.

use consign::administration::QueueSettings;
use consign_conformance::log::Lines;
use consign_postgres::Postgres;

use crate::{Fixture, until};

const TARGET: &str = "consign::postgres";

/// Rules: O-279.
#[tokio::test]
async fn no_line_and_no_error_has_the_password_of_the_address() {
    let (lines, _guard) = Lines::capture();
    let error = Postgres::connect("postgresql://ledger:s3cret@127.0.0.1:1/ledger").await.unwrap_err();
    let shown = format!("{:?} {error} {error:?}", lines.all());
    assert!(!shown.contains("s3cret"), "{shown}");
}

/// Rules: O-279.
#[tokio::test]
async fn a_connection_that_is_lost_and_made_again_is_logged() {
    let (lines, _guard) = Lines::capture();
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let name = format!("{}_log", fixture.schema);
    let broken = crate::options(&fixture.schema).connect(&fixture.url_of(&name)).await.unwrap();
    let receiver = broken.receiver(crate::QUEUE).await.unwrap();
    let logged = |text: &str| lines.of(TARGET).iter().any(|line| line.contains(text));
    until(async || {
        // It may not listen yet.
        crate::lost::cut(&fixture, &name).await;
        logged("WARN consign::postgres: the connection for notifications was lost: the transport reconnects")
    })
    .await;
    until(async || logged("INFO consign::postgres: connected again for notifications")).await;
    let schema = format!("schema={}", &*fixture.schema);
    let lines = lines.of(TARGET);
    assert!(lines.iter().all(|line| line.contains(&schema) && !line.contains("postgresql://")), "{lines:?}");
    drop((receiver, broken));
    fixture.end().await;
}
