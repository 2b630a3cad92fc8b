//! What this transport logs of its connection.

use std::time::Duration;

use consign::{
    Message,
    transport::{ReceiverExt, Sender},
};
use consign_conformance::{faults::Proxy, log::Lines};
use consign_nats::{Nats, QueueSettings};
use tokio::time::timeout;

use crate::{LONG, queue, server};

const TARGET: &str = "consign::nats";

/// Rules: O-279.
#[tokio::test]
async fn no_line_and_no_error_has_the_password_of_the_address() {
    let (lines, _guard) = Lines::capture();
    let options = Nats::options().timeout(Duration::from_secs(1));
    let error = options.connect("nats://ledger:s3cret@127.0.0.1:1").await.unwrap_err();
    let shown = format!("{:?} {error} {error:?}", lines.all());
    assert!(!shown.contains("s3cret"), "{shown}");
}

/// Rules: O-279.
#[tokio::test]
async fn a_connection_that_is_lost_and_made_again_is_logged() {
    let Some((nats, path)) = queue(QueueSettings::default()).await else { return };
    let url = server::url().unwrap();
    let address = url.rsplit_once("//").map_or(&*url, |(_, address)| address);
    let address = tokio::net::lookup_host(address).await.unwrap().find(std::net::SocketAddr::is_ipv4).unwrap();
    let proxy = Proxy::to(address).await.unwrap();
    let by_proxy = format!("nats://ledger:s3cret@{}", proxy.address());
    let broken = Nats::options().namespace("test").server_syncs().connect(&by_proxy).await.unwrap();
    let mut receiver = broken.receiver(&path).await.unwrap();

    let (lines, _guard) = Lines::capture();
    let waited = timeout(Duration::from_millis(500), receiver.receive()).await;
    assert!(waited.is_err(), "there is no message");
    proxy.cut();
    let error = timeout(LONG, receiver.receive()).await.unwrap().unwrap_err();
    assert!(error.is_retryable(), "{error}");
    nats.sender(&path).await.unwrap().send(Message::new("again")).await.unwrap();
    let delivery = loop {
        if let Ok(delivery) = timeout(LONG, receiver.receive()).await.unwrap() {
            break delivery;
        }
    };
    delivery.complete().await.unwrap();
    let logged = lines.of(TARGET);
    let entity = format!("entity={path}");
    assert!(logged[0].starts_with("WARN consign::nats: the connection was lost: the client reconnects"), "{logged:?}");
    assert!(logged.iter().any(|line| line.starts_with("INFO consign::nats: connected again")), "{logged:?}");
    assert!(logged.iter().all(|line| line.contains(&entity)), "{logged:?}");
    assert!(!format!("{:?} {error} {error:?}", lines.all()).contains("s3cret"), "{:?}", lines.all());
    nats.delete(&path).await.unwrap();
}
