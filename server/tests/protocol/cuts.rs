//! Connections that are cut at random bytes.

use std::{collections::BTreeSet, env, time::Duration};

use consign_amqp::client::{Connection, Error, Options};
use tokio::io::{AsyncReadExt, DuplexStream, copy, duplex};

use crate::support::*;

const MESSAGES: usize = 20;

/// A stream to the server that is cut when so many bytes have passed in one direction.
fn cut_stream(harness: &Harness, bytes: u64) -> DuplexStream {
    let (client, near) = duplex(4_096);
    let server = harness.stream();
    tokio::spawn(async move {
        let (near_read, mut near_write) = tokio::io::split(near);
        let (server_read, mut server_write) = tokio::io::split(server);
        let (mut up, mut down) = (near_read.take(bytes), server_read.take(bytes));
        tokio::select! {
            _ = copy(&mut up, &mut server_write) => {}
            _ = copy(&mut down, &mut near_write) => {}
        }
    });
    client
}

async fn connect(harness: &Harness, bytes: u64) -> Result<Connection, Error> {
    let options = Options::new("client").timeout(Duration::from_secs(5));
    Connection::open(cut_stream(harness, bytes), options).await
}

/// Sends what is not accepted yet, until the connection is cut.
async fn send_some(harness: &Harness, bytes: u64, left: &mut BTreeSet<String>) -> Result<(), Error> {
    let session = connect(harness, bytes).await?.begin().await?;
    let link = try_sender(&session, "orders").await?;
    while let Some(text) = left.first().cloned() {
        assert_eq!(link.send(message(&text)).await?, Some(accepted()));
        left.remove(&text);
    }
    Ok(())
}

/// Completes messages until the connection is cut, or none is left.
async fn receive_some(harness: &Harness, bytes: u64, seen: &mut BTreeSet<String>) -> Result<(), Error> {
    let session = connect(harness, bytes).await?.begin().await?;
    let mut link = try_receiver(&session, "orders").await?;
    link.set_automatic_credit(5)?;
    let settler = link.settler();
    loop {
        let delivery = tokio::time::timeout(Duration::from_secs(1), link.recv()).await;
        let Ok(delivery) = delivery else { return Ok(()) };
        let delivery = delivery?;
        seen.insert(text_of(&delivery));
        settler.settle_confirmed(delivery.id, &accepted()).await?;
    }
}

/// No accepted message is lost, no lock outlives its connection, and the server goes on.
/// Rules: S-29, A-42.
#[tokio::test(start_paused = true)]
async fn no_message_is_lost_wherever_connections_are_cut() {
    let cases = env::var("CONSIGN_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(20);
    let seed = env::var("CONSIGN_SEED").ok().and_then(|seed| seed.parse().ok());
    for case in seed.map_or(0..cases, |seed| seed..seed + 1) {
        println!("CONSIGN_SEED={case} cargo test -p consign-server --test protocol no_message_is_lost");
        let mut random = fastrand::Rng::with_seed(case);
        let harness = Harness::new();
        let all: BTreeSet<String> = (0..MESSAGES).map(|nth| format!("{nth}-{}", "x".repeat(nth * 20))).collect();
        let mut left = all.clone();
        while !left.is_empty() {
            let _ = send_some(&harness, random.u64(200..20_000), &mut left).await;
        }
        let queue = harness.broker().queue("orders").unwrap();
        let mut seen = BTreeSet::new();
        while queue.counts().active + queue.counts().locked > 0 {
            let _ = receive_some(&harness, random.u64(200..20_000), &mut seen).await;
        }
        assert_eq!(seen, all);
        // The last connections end by themselves.
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert_eq!(harness.server.connections(), 0);
    }
}
