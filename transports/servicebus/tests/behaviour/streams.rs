//! TLS, WebSocket and proxies, on loopback and in real time.

use std::sync::Arc;

use base64::{Engine, engine::general_purpose::STANDARD};
use consign::{
    Message,
    administration::QueueSettings,
    transport::{ErrorKind, ReceiverExt, Sender, Transport, TransportRegistry},
};
use consign_amqp::{server::Acceptor, stream::WebSocketOptions};
use consign_servicebus::{Options, ServiceBus, connector};
use rustls::{ServerConfig, pki_types::PrivateKeyDer};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpSocket, TcpStream},
};

use super::{InMemory, create, receiver, text};

const KEY: &str = "SharedAccessKeyName=any;SharedAccessKey=any";

/// A certificate for `localhost` in PEM, and the configuration of a server that has it.
fn certify() -> (String, Arc<ServerConfig>) {
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(certified.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_no_client_auth().with_single_cert(vec![certified.cert.der().clone()], key).unwrap();
    let der = STANDARD.encode(certified.cert.der());
    let lines: Vec<_> = der.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
    let pem = format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"));
    (pem, Arc::new(config))
}

async fn listen(server: &InMemory, acceptor: Acceptor) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = server.server.clone();
    tokio::spawn(async move { server.serve_with(listener, acceptor).await });
    port
}

async fn exchange(server: &InMemory, service_bus: &ServiceBus) {
    let orders = create(server, QueueSettings::default()).await;
    // More than a frame.
    let body = "x".repeat(200_000);
    service_bus.sender(&orders).await.unwrap().send(Message::new(body.clone())).await.unwrap();
    let delivery = receiver(service_bus, &orders).await.receive().await.unwrap();
    assert_eq!(text(&delivery.message), body);
    delivery.complete().await.unwrap();
}

/// Rules: K-311.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_is_checked() {
    let (pem, config) = certify();
    let server = InMemory::new();
    let port = listen(&server, Acceptor::new().tls(config)).await;
    let text = format!("Endpoint=sb://localhost:{port};{KEY}");
    let error = ServiceBus::connect(&text).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CommunicationProblem, "{error}");
    let service_bus = ServiceBus::options().certificates(&pem).connect(&text).await.unwrap();
    exchange(&server, &service_bus).await;

    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), pem).unwrap();
    let registry = TransportRegistry::new().with(connector());
    let url = format!("servicebus://any:any@localhost:{port}?certificates={}", file.path().display());
    registry.connect(&url).await.unwrap().close().await.unwrap();
}

/// The key is not shown.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_of_a_connection_names_the_server_and_what_one_without_tls_needs() {
    let server = InMemory::new();
    let port = listen(&server, Acceptor::new()).await;
    let error = ServiceBus::connect(&format!("Endpoint=sb://localhost:{port};{KEY}")).await.unwrap_err();
    let text = error.to_string();
    assert_eq!(error.kind(), ErrorKind::CommunicationProblem);
    assert!(text.contains(&format!("cannot connect to localhost:{port}: ")), "{text}");
    assert!(text.contains("`emulator=true`") && text.contains("`UseDevelopmentEmulator=true`"), "{text}");

    // A port that is taken, and refuses connections.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let port = socket.local_addr().unwrap().port();
    let text = format!("Endpoint=sb://127.0.0.1:{port};{KEY};UseDevelopmentEmulator=true");
    let options = ServiceBus::options().timeout(std::time::Duration::from_secs(1));
    let text = options.connect(&text).await.unwrap_err().to_string();
    assert!(text.contains(&format!("cannot connect to 127.0.0.1:{port}: ")) && !text.contains("emulator"), "{text}");
}

/// Rules: K-311.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn amqp_is_transferred_over_web_socket() {
    let (pem, config) = certify();
    for is_tls in [false, true] {
        let server = InMemory::new();
        let acceptor = Acceptor::new().web_socket(WebSocketOptions::service_bus());
        let acceptor = if is_tls { acceptor.tls(Arc::clone(&config)) } else { acceptor };
        let port = listen(&server, acceptor).await;
        let text = format!("Endpoint=sb://localhost:{port};{KEY};UseDevelopmentEmulator={}", !is_tls);
        let options = ServiceBus::options().web_socket(true).certificates(&pem);
        exchange(&server, &options.connect(&text).await.unwrap()).await;
    }
}

/// A proxy of one connection. Returns its address, and the head of the request.
async fn proxy(status: &'static str) -> (String, tokio::task::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://user:p%40ss@{}", listener.local_addr().unwrap());
    let serving = tokio::spawn(async move {
        let (mut client, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(client.read_u8().await.unwrap());
        }
        let head = String::from_utf8(head).unwrap();
        client.write_all(format!("HTTP/1.1 {status}\r\n\r\n").as_bytes()).await.unwrap();
        if status.starts_with("200") {
            let target = head.split(' ').nth(1).unwrap();
            let mut server = TcpStream::connect(target).await.unwrap();
            tokio::spawn(async move { tokio::io::copy_bidirectional(&mut client, &mut server).await });
        }
        head
    });
    (address, serving)
}

/// Rules: K-311.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proxy_connects_to_the_host() {
    let (pem, config) = certify();
    let server = InMemory::new();
    let port = listen(&server, Acceptor::new().tls(config)).await;
    let text = format!("Endpoint=sb://localhost:{port};{KEY}");
    let options = || -> Options { ServiceBus::options().certificates(&pem) };
    let (address, head) = proxy("200 OK").await;
    exchange(&server, &options().proxy(address).connect(&text).await.unwrap()).await;
    let head = head.await.unwrap();
    assert!(head.starts_with(&format!("CONNECT localhost:{port} HTTP/1.1\r\n")), "{head}");
    assert!(head.contains("Proxy-Authorization: Basic dXNlcjpwQHNz\r\n"), "{head}");

    let (address, _) = proxy("407 No").await;
    let error = options().proxy(address).connect(&text).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CommunicationProblem);
    let shown = format!("{error} {error:?}");
    assert!(shown.contains("407") && !shown.contains("p%40ss") && !shown.contains("p@ss"), "{shown}");
    let error = options().proxy("https://user:s3cret@proxy").connect(&text).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(!format!("{error} {error:?}").contains("s3cret"));
}
