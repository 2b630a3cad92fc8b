//! Connections that only take resources, beside a client that works. `cargo xtask overload` has more of them, and a real clock.

use std::{iter, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream},
    time::{Instant, sleep, timeout},
};

use crate::support::*;

const EACH: usize = 30;

/// What a SASL client without an identity begins with.
const SASL_HEADER: &[u8] = b"AMQP\x03\x01\x00\x00";
/// The header of AMQP, which may come without SASL.
const HEADER: &[u8] = b"AMQP\x00\x01\x00\x00";

/// Reads until the server closes the stream. Returns after how many seconds.
async fn closed(mut stream: DuplexStream) -> u64 {
    let began = Instant::now();
    let mut rest = Vec::new();
    let _ = timeout(Duration::from_secs(600), stream.read_to_end(&mut rest)).await.expect("it is closed");
    began.elapsed().as_secs()
}

/// One byte a second of a header, and then of frames that announce much and never end.
async fn drip(mut stream: DuplexStream) -> u64 {
    let began = Instant::now();
    let bytes = SASL_HEADER.iter().chain(b"\x00\x00\xff\xff\x02\x01\x00\x00").copied().chain(iter::repeat(0));
    for byte in bytes {
        if stream.write_all(&[byte]).await.is_err() || began.elapsed() > Duration::from_secs(600) {
            break;
        }
        sleep(Duration::from_secs(1)).await;
    }
    began.elapsed().as_secs()
}

/// Rules.
/// Attacks: 89.
#[tokio::test(start_paused = true)]
async fn hostile_connections_end_by_the_handshake_timeout_beside_a_client_that_works() {
    let harness = Harness::new();
    let session = harness.session().await;
    let link = sender(&session, "orders").await;
    let mut random = fastrand::Rng::with_seed(11);
    let mut tasks = Vec::new();
    for _ in 0..EACH {
        tasks.push(tokio::spawn(drip(harness.stream())));
        for begin in [&b""[..], SASL_HEADER, HEADER] {
            let mut stream = harness.stream();
            stream.write_all(begin).await.unwrap();
            tasks.push(tokio::spawn(closed(stream)));
        }
        let mut stream = harness.stream();
        let garbage: Vec<u8> =
            SASL_HEADER.iter().copied().chain(iter::repeat_with(|| random.u8(..)).take(500)).collect();
        stream.write_all(&garbage).await.unwrap();
        tasks.push(tokio::spawn(closed(stream)));
    }
    // In the same virtual instant: no answer waits for any of them.
    let began = Instant::now();
    for nth in 0..200 {
        assert_eq!(link.send(message(&nth.to_string())).await.unwrap(), Some(accepted()));
    }
    assert_eq!(began.elapsed(), Duration::ZERO);
    for task in tasks {
        let seconds = task.await.unwrap();
        assert!(seconds <= 21, "{seconds}");
    }
    assert_eq!(harness.server.connections(), 1);
}
