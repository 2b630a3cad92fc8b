//! A shutdown ends in its time, and routes without a server have the limits of HTTP.

use std::time::Duration;

use axum::{Router, routing::any};
use consign_server::{
    Server, Timeouts,
    http::{HttpOptions, serve_routes},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::oneshot,
    task::JoinHandle,
    time::Instant,
};

use crate::support::{Answer, request};

const LIMIT: Duration = Duration::from_secs(3);

/// Routes without a server, and what stops them.
async fn serve(options: HttpOptions) -> (std::net::SocketAddr, oneshot::Sender<()>, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel();
    let options = options.routes(Router::new().route("/route", any(async || "answer")));
    let serving = tokio::spawn(async move {
        serve_routes(listener, options, async { stopped.await.unwrap() }, LIMIT).await.unwrap();
    });
    (address, stop, serving)
}

/// Writes bytes, and reads until the connection is closed.
async fn call(address: std::net::SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let (mut answer, mut buffer) = (Vec::new(), [0; 4_096]);
    // A reset after the answer is the end of it.
    while let Ok(count @ 1..) = stream.read(&mut buffer).await {
        answer.extend_from_slice(&buffer[..count]);
    }
    answer
}

/// A client that has sent half a request, which the server has read.
async fn half_a_request(address: std::net::SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET /route HTTP/1.1\r\nHost: lo").await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    stream
}

/// Rules: HT-34.
#[tokio::test(start_paused = true)]
async fn half_a_request_does_not_delay_a_shutdown_beyond_its_time() {
    let (address, stop, serving) = serve(HttpOptions::default()).await;
    let _half = half_a_request(address).await;
    let began = Instant::now();
    stop.send(()).unwrap();
    serving.await.unwrap();
    assert!(began.elapsed().as_secs() <= LIMIT.as_secs(), "{:?}", began.elapsed());
    assert!(TcpStream::connect(address).await.is_err());

    let server = Server::builder().timeouts(Timeouts::default().shutdown(LIMIT)).build();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn({
        let server = server.clone();
        async move { server.serve_http(listener, HttpOptions::default()).await.unwrap() }
    });
    let _half = half_a_request(address).await;
    let began = Instant::now();
    tokio::join!(server.shutdown(), async { serving.await.unwrap() });
    assert!(began.elapsed().as_secs() <= LIMIT.as_secs(), "{:?}", began.elapsed());
    assert_eq!(server.connections(), 0);
}

/// Rules: HT-20, HT-35.
#[tokio::test(start_paused = true)]
async fn routes_without_a_server_have_the_limits_of_http() {
    let (address, stop, serving) = serve(HttpOptions::default().max_connections(1)).await;
    let answer = Answer::read(&call(address, &request("GET", "/route", &[], "")).await).unwrap();
    assert_eq!((answer.status, answer.text()), (200, "answer"));
    assert_eq!(Answer::read(&call(address, &request("GET", "/other", &[], "")).await).unwrap().status, 404);
    let twice = b"POST /route HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n";
    assert_eq!(Answer::read(&call(address, twice).await).unwrap().status, 400);

    let began = Instant::now();
    let half = tokio::spawn(call(address, b"GET /route HTTP/1.1\r\n"));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(Answer::read(&call(address, &request("GET", "/route", &[], "")).await).unwrap().status, 200);
    half.await.unwrap();
    assert_eq!(began.elapsed().as_secs(), 1, "one more closes the oldest");
    call(address, b"GET /route HTTP/1.1\r\n").await;
    assert_eq!(began.elapsed().as_secs(), 31);
    stop.send(()).unwrap();
    serving.await.unwrap();
}
