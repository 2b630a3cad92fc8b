use std::time::Duration;

use consign_amqp::{
    client::{Connection, Connector, Options},
    engine::SaslCredentials,
    message::Data,
    stream::{Subprotocol, WebSocketOptions},
};
use consign_core::administration::QueueSettings;
use consign_server::http::HttpOptions;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::support::{Answer, Harness, request};

/// Rules: A-69.
#[tokio::test]
async fn amqp_over_web_socket_is_an_upgrade() {
    let harness = Harness::with(|builder| builder).await;
    let connector = Connector::new("127.0.0.1", harness.address.port()).web_socket(WebSocketOptions::service_bus());
    let mut engine = consign_amqp::engine::Options::default();
    engine.sasl_client = Some(SaslCredentials::anonymous());
    let options = Options::new("client").timeout(Duration::from_secs(60)).engine(engine);
    let connection = Connection::open(connector.connect().await.unwrap(), options).await.unwrap();
    let sender = connection.begin().await.unwrap().attach_sender("sender", "orders").await.unwrap();
    let body = consign_amqp::codec::encode(&Data(b"over web socket".to_vec().into())).unwrap();
    sender.send(body).await.unwrap();
    assert_eq!(harness.receive("orders").await.text(), "over web socket");
    harness.server.shutdown().await;
    connection.closed().await;
}

/// The path of Azure.Messaging.ServiceBus (.NET), and the subprotocol of a client of azservicebus (Go).
#[tokio::test]
async fn a_slash_behind_the_path_and_the_subprotocol_amqp_are_accepted() {
    let harness = Harness::with(|builder| builder).await;
    for (path, subprotocol) in
        [("/$servicebus/websocket/", Subprotocol::ServiceBus), ("/$servicebus/websocket", Subprotocol::Amqp)]
    {
        let connector = Connector::new("127.0.0.1", harness.address.port())
            .web_socket(WebSocketOptions::new(path).subprotocols([subprotocol]));
        connector.connect().await.unwrap();
    }
}

#[tokio::test]
async fn what_is_no_upgrade_is_refused() {
    let harness = Harness::new().await;
    let path = "/$servicebus/websocket";
    let upgrade = [
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ("Sec-WebSocket-Protocol", "AMQPWSB10"),
    ];
    for left_out in 0..upgrade.len() {
        let headers: Vec<_> = upgrade.into_iter().enumerate().filter(|(at, _)| *at != left_out).collect();
        let headers: Vec<_> = headers.into_iter().map(|(_, header)| header).collect();
        assert_eq!(harness.call("GET", path, &headers, "").await.status, 400, "{left_out}");
    }
    assert_eq!(harness.call("POST", path, &[], "").await.status, 400);
}

#[tokio::test]
async fn a_connection_serves_several_requests() {
    let harness = Harness::new().await;
    let one = "POST /q/messages HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\n1";
    let last = String::from_utf8(request("POST", "/q/messages", &[], "2")).unwrap();
    let answers = harness.raw(format!("{one}{last}").as_bytes(), false).await;
    assert_eq!(String::from_utf8(answers).unwrap().matches("201 Created").count(), 2);
    assert_eq!((harness.receive("q").await.text(), harness.receive("q").await.text()), ("1", "2"));
}

/// Opens a connection and writes a request on it. Returns the first bytes of the answer.
async fn begin(harness: &Harness, request: &str) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(harness.address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut buffer = [0; 4_096];
    let count = stream.read(&mut buffer).await.unwrap();
    (stream, String::from_utf8_lossy(&buffer[..count]).into_owned())
}

/// Connections without a key cannot shut out those with one.
#[tokio::test]
async fn one_connection_over_the_limit_closes_one_that_is_not_authorized() {
    use consign_server::auth::{Rights, SharedAccessKey, SharedAccessKeys};

    let keys = SharedAccessKeys::new([SharedAccessKey::new("key", "secret", Rights::MANAGE)]);
    let build = |builder: consign_server::Builder| builder.authorizer(keys);
    let harness = Harness::with_options(build, HttpOptions::default().max_connections(2)).await;
    let with_key = "GET /$namespaceinfo HTTP/1.1\r\nHost: h\r\nAuthorization: Basic a2V5OnNlY3JldA==\r\n\r\n";
    let (mut client, answer) = begin(&harness, with_key).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    for _ in 0..3 {
        let (_stranger, answer) = begin(&harness, "GET /a HTTP/1.1\r\nHost: h\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
        let (mut silent, _) = begin(&harness, "GET /a HTTP/1.1\r\nHost: h\r\n\r\nGET").await;
        client.write_all(with_key.as_bytes()).await.unwrap();
        assert!(client.read(&mut [0; 4_096]).await.unwrap() > 0);
        let (_other, answer) = begin(&harness, with_key).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert_eq!(silent.read(&mut [0; 16]).await.unwrap_or(0), 0);
    }
}

#[tokio::test]
async fn one_connection_over_the_limit_is_closed_if_each_has_a_request() {
    let harness = Harness::with_options(|builder| builder, HttpOptions::default().max_connections(1)).await;
    let head = "POST /q/messages HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n";
    let (mut first, answer) = begin(&harness, head).await;
    assert!(answer.starts_with("HTTP/1.1 100"), "{answer}");
    assert!(harness.raw(&request("GET", "/a", &[], ""), false).await.is_empty());
    assert_eq!(harness.server.connections(), 1);
    first.write_all(b"1").await.unwrap();
    assert!(first.read(&mut [0; 4_096]).await.unwrap() > 0);
    assert_eq!(harness.receive("q").await.text(), "1");
    assert_eq!(first.read(&mut [0; 16]).await.unwrap_or(0), 0, "it has no request any more");
}

#[tokio::test]
async fn a_request_line_with_headers_has_at_most_64_kib() {
    let harness = Harness::new().await;
    let head = |length: usize| {
        let head = "GET /q HTTP/1.1\r\nHost: h\r\nConnection: close\r\na: \r\n\r\n";
        head.replacen("a: ", &format!("a: {}", "x".repeat(length - head.len())), 1)
    };
    for (length, status) in [(65_536, 200), (65_537, 431), (90_000, 431), (200_000, 431)] {
        let answer = Answer::read(&harness.raw(head(length).as_bytes(), false).await).unwrap();
        assert_eq!((head(length).len(), answer.status), (length, status));
    }
    let line = |length| String::from_utf8(request("GET", &format!("/{}", "x".repeat(length)), &[], "")).unwrap();
    for (length, status) in [(65_000, 400), (65_500, 431), (66_000, 414)] {
        let answer = Answer::read(&harness.raw(line(length).as_bytes(), false).await).unwrap();
        assert_eq!(answer.status, status, "{length}");
    }
}

#[tokio::test]
async fn a_shutdown_answers_those_that_wait() {
    let harness = Harness::new().await;
    let mut waiting = TcpStream::connect(harness.address).await.unwrap();
    waiting.write_all(&request("DELETE", "/q/messages/head?timeout=300", &[], "")).await.unwrap();
    while harness.server.connections() == 0 {
        tokio::task::yield_now().await;
    }
    harness.server.shutdown().await;
    let mut answer = Vec::new();
    waiting.read_to_end(&mut answer).await.unwrap();
    // It may not have been read before the shutdown.
    assert!(answer.is_empty() || Answer::read(&answer).unwrap().status == 503);
    assert!(TcpStream::connect(harness.address).await.is_err());
}

fn upgrade<'a>(more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let upgrade = [
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ("Sec-WebSocket-Protocol", "AMQPWSB10"),
    ];
    upgrade.into_iter().chain(more.iter().copied()).collect()
}

/// The name of another site may be made to point to loopback.
/// Rules: HT-26.
#[tokio::test]
async fn the_page_of_another_site_in_a_browser_is_refused() {
    let harness = Harness::new().await;
    let socket = "/$servicebus/websocket";
    for (host, headers, status) in [
        ("localhost:5300", &[("Origin", "http://other")][..], 403),
        ("localhost:5300", &[("Origin", "null")], 403),
        ("localhost:5300", &[("Origin", "http://localhost:5300"), ("Origin", "http://other")], 403),
        ("evil:5300", &[("Origin", "http://evil:5300"), ("User-Agent", "Mozilla/5.0")], 421),
        ("evil:5300", &[("Accept-Language", "en")], 421),
        ("evil:5300", &[("Sec-Fetch-Site", "same-origin")], 421),
        // Clients under a local name, and the websocket-client of Python, which writes an origin.
        ("host.docker.internal:5300", &[], 0),
        ("host.docker.internal:5300", &[("User-Agent", "azsdk-net")], 0),
        ("host.docker.internal:5300", &[("Origin", "http://host.docker.internal:5300")], 0),
        ("localhost:5300", &[("Origin", "http://localhost:5300"), ("User-Agent", "Mozilla/5.0")], 0),
        ("127.0.0.1:5300", &[("Accept-Language", "en"), ("Sec-Fetch-Site", "none")], 0),
    ] {
        for (method, path, expected) in [
            ("GET", socket, 400),
            ("GET", "/$Resources/queues", 200),
            ("POST", "/q/messages", 201),
            ("DELETE", "/q/messages/head?timeout=0", 200),
        ] {
            let answer = harness.call_at(host, method, path, headers).await;
            let expected = if status == 0 { expected } else { status };
            assert_eq!(answer.status, expected, "{method} {path} at {host}: {headers:?}");
        }
    }
    for (headers, status) in [(&[("Origin", "http://other")][..], 403), (&[("Origin", "http://localhost:5300")], 101)] {
        let request = String::from_utf8(request("GET", socket, &upgrade(headers), "")).unwrap();
        let request = request.replace("Connection: close", "Connection: Upgrade");
        let answer = harness.raw(request.as_bytes(), true).await;
        assert_eq!(crate::support::Answer::read(&answer).unwrap().status, status, "{headers:?}");
    }
}

/// A page has no key, so that a server with keys may have any name.
/// Rules: HT-26.
#[tokio::test]
async fn a_server_with_keys_answers_browsers_under_any_name() {
    use consign_server::auth::{Rights, SharedAccessKey, SharedAccessKeys};

    let keys = SharedAccessKeys::new([SharedAccessKey::new("key", "secret", Rights::MANAGE)]);
    let harness = Harness::with(|builder| builder.authorizer(keys)).await;
    harness.broker().create_queue("q", QueueSettings::default()).unwrap();
    let headers = [("Accept-Language", "en"), ("Authorization", "Basic a2V5OnNlY3JldA==")];
    assert_eq!(harness.call_at("bus.example:5300", "POST", "/q/messages", &headers).await.status, 201);
    assert_eq!(harness.call_at("bus.example:5300", "POST", "/q/messages", &headers[..1]).await.status, 401);
}
