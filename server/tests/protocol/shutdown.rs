//! A shutdown ends in its time, whatever clients do.

use std::time::Duration;

use consign_amqp::{codec, server::Acceptor, stream::WebSocketOptions, types::Open};
use consign_server::{Server, Timeouts};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::Instant,
};

use crate::support::broker;

const LIMIT: Duration = Duration::from_secs(3);

fn server() -> Server {
    Server::builder().broker(broker()).timeouts(Timeouts::default().shutdown(LIMIT)).build()
}

async fn listener() -> (TcpListener, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    (listener, stream)
}

/// Opens a connection on which the client does nothing more.
async fn open(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) {
    let open = codec::encode(&Open { container_id: "client".into(), ..Open::default() }).unwrap();
    let size = u32::try_from(8 + open.len()).unwrap().to_be_bytes();
    let bytes = [b"AMQP\x00\x01\x00\x00", &size[..], &[2, 0, 0, 0], &open].concat();
    stream.write_all(&bytes).await.unwrap();
    // The header, and the first byte of the server's open.
    stream.read_exact(&mut [0; 9]).await.unwrap();
}

/// How long a shutdown and the end of what serves take.
async fn shut_down(server: &Server, serving: impl Future<Output = ()>) -> u64 {
    let began = Instant::now();
    tokio::join!(server.shutdown(), serving);
    assert_eq!(server.connections(), 0);
    began.elapsed().as_secs()
}

/// Rules: HT-34.
#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_close_is_dropped() {
    let server = server();
    let (listener, mut stream) = listener().await;
    let serving = tokio::spawn({
        let server = server.clone();
        async move { server.serve(listener).await.unwrap() }
    });
    open(&mut stream).await;
    assert_eq!(shut_down(&server, async { serving.await.unwrap() }).await, LIMIT.as_secs());

    let server = self::server();
    let (mut stream, end) = tokio::io::duplex(1 << 16);
    let serving = tokio::spawn(server.serve_stream(end));
    open(&mut stream).await;
    assert_eq!(shut_down(&server, async { serving.await.unwrap() }).await, LIMIT.as_secs());
}

/// Rules: HT-34.
#[tokio::test(start_paused = true)]
async fn a_handshake_ends_at_the_shutdown() {
    let server = server();
    let (listener, _stream) = listener().await;
    let acceptor = Acceptor::new().web_socket(WebSocketOptions::service_bus());
    let serving = tokio::spawn({
        let server = server.clone();
        async move { server.serve_with(listener, acceptor).await.unwrap() }
    });
    while server.connections() == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(shut_down(&server, async { serving.await.unwrap() }).await, 0);
}
