use std::{iter, time::Duration};

use consign_amqp::{client::Connector, server::Acceptor, stream::ErrorKind};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::{Instant, sleep},
};

use super::{client_of_web_socket, server_of_web_socket, tls};

const TIMEOUT: Duration = Duration::from_secs(5);

/// Sends bytes one by one, the last of them again and again, for as long as they are read.
async fn trickle(mut stream: tokio::io::DuplexStream, bytes: &'static [u8]) {
    for byte in bytes.iter().chain(iter::repeat(bytes.last().unwrap())) {
        if stream.write_all(&[*byte]).await.is_err() {
            return;
        }
        sleep(Duration::from_millis(500)).await;
    }
}

/// Rules: A-70.
#[tokio::test(start_paused = true)]
async fn a_slow_handshake_ends_by_the_timeout() {
    let (server, client) = tls::configurations("broker.test");
    let head: &[u8] = b"GET /$servicebus/websocket HTTP/1.1\r\nhost: x\r\nx-padding: ";
    let hello: &[u8] = &[0x16, 3, 1, 0, 200, 1, 0, 0, 196, 3, 3, 0, 0, 0, 0, 0, 0];
    let tls = Acceptor::new().tls(server);
    for (acceptor, bytes, step) in
        [(server_of_web_socket(), head, "WebSocket handshake"), (tls, hello, "TLS handshake")]
    {
        let (near, far) = tokio::io::duplex(64);
        tokio::spawn(trickle(near, bytes));
        let began = Instant::now();
        let error = acceptor.timeout(TIMEOUT).accept(far).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut { waiting_for: step, after: TIMEOUT });
        assert_eq!(error.to_string(), format!("no {step} within 5s"));
        assert_eq!(began.elapsed(), TIMEOUT, "of the paused clock");
    }
    let answer: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nx-padding: ";
    let hello: &[u8] = &[0x16, 3, 3, 0, 200, 2, 0, 0, 196, 3, 3, 0];
    let tls = Connector::new("broker.test", 443).tls(client);
    for (connector, bytes, step) in
        [(client_of_web_socket(), answer, "WebSocket handshake"), (tls, hello, "TLS handshake")]
    {
        let (near, far) = tokio::io::duplex(4_096);
        tokio::spawn(trickle(far, bytes));
        let error = connector.timeout(TIMEOUT).handshake(near).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut { waiting_for: step, after: TIMEOUT });
    }
}

/// Rules: A-70.
#[tokio::test(start_paused = true)]
async fn all_steps_share_one_timeout() {
    let (server, client) = tls::configurations("broker.test");
    let (near, far) = tokio::io::duplex(4_096);
    // TLS takes 3 seconds, and no WebSocket follows.
    let silent = tokio::spawn(async move {
        sleep(Duration::from_secs(3)).await;
        let mut stream = Acceptor::new().tls(server).accept(far).await.unwrap();
        sleep(Duration::from_secs(3_600)).await;
        let _ = stream.read_u8().await;
    });
    let began = Instant::now();
    let connector = client_of_web_socket().tls(client).timeout(TIMEOUT);
    let error = connector.handshake(near).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut { waiting_for: "WebSocket handshake", after: TIMEOUT });
    assert_eq!(began.elapsed(), TIMEOUT, "of the paused clock");
    silent.abort();
}

/// Rules: A-70.
#[tokio::test(start_paused = true)]
async fn an_endless_header_is_refused_before_it_takes_memory() {
    let mut fields = b"GET /$servicebus/websocket HTTP/1.1\r\nx-padding: ".to_vec();
    fields.resize(1_024 * 1_024, b'x');
    let mut many = b"GET /$servicebus/websocket HTTP/1.1\r\n".to_vec();
    many.extend_from_slice(&b"a: b\r\n".repeat(200));
    for header in [fields, many] {
        let (mut near, far) = tokio::io::duplex(4_096);
        let sending = tokio::spawn(async move {
            let mut sent = 0;
            for part in header.chunks(1_024) {
                if near.write_all(part).await.is_err() {
                    break;
                }
                sent += part.len();
            }
            sent
        });
        let error = server_of_web_socket().accept(far).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WebSocket { status: None });
        assert!(sending.await.unwrap() < 80 * 1_024);
    }
}
