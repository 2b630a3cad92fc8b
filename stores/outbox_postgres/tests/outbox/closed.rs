//! A client that the application has closed.

use std::env;

use consign::transport::ErrorKind;
use consign_conformance::left_out;
use consign_nats::Nats;

use crate::support::{Bench, Running, message};

/// Rules: X-43.
#[tokio::test]
async fn a_message_is_not_refused_because_the_client_is_closed() {
    const VARIABLE: &str = "CONSIGN_NATS";
    let address = env::var(VARIABLE).unwrap_or_else(|_| "nats://127.0.0.1:4222".to_owned());
    let nats = match Nats::options().namespace("outbox").connect(&address).await {
        Ok(nats) => nats,
        Err(error) if error.kind() == ErrorKind::CommunicationProblem && env::var_os(VARIABLE).is_none() => {
            left_out("a relay to a closed client of NATS: no server; scripts/brokers starts one");
            return;
        }
        Err(error) => panic!("{error:?}"),
    };
    let Some(mut bench) = Bench::new().await else { return };
    let running = Running::start(bench.relay(nats.clone()));
    nats.close().await.unwrap();
    bench.add("orders", [message("a")]).await;
    bench.until("EXISTS (SELECT FROM {t} WHERE attempts > 0)").await;
    assert_eq!(running.stop().await.refused, 0);
    assert_eq!(bench.outbox.refused(&bench.client, 10).await.unwrap().len(), 0);
    assert_eq!(bench.outbox.waiting(&bench.client).await.unwrap(), 1);
    bench.end().await;
}
