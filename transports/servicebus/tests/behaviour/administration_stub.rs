//! Requests of the administration to a server that answers as it is told.

use std::sync::Arc;

use consign::{
    administration::{Administration, QueueSettings},
    transport::{BoxFuture, ErrorKind, Transport},
};
use consign_servicebus::{AccessToken, CredentialError, ServiceBus, TokenCredential, TokenType};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use super::{InMemory, create, path};

const HTTP: u16 = 5300;

/// Has any token, and notes the audiences.
struct Noted(Arc<Mutex<Vec<String>>>);

impl TokenCredential for Noted {
    fn token(&self, audience: &str) -> BoxFuture<Result<AccessToken, CredentialError>> {
        self.0.lock().push(audience.to_owned());
        Box::pin(async { Ok(AccessToken::new(TokenType::Jwt, "a token".to_owned())) })
    }
}

/// Reads a request without a body, and answers it.
async fn answer(mut stream: DuplexStream, requests: Arc<Mutex<Vec<String>>>, status: &str, body: &str) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    let line = String::from_utf8(head).unwrap().lines().next().unwrap().to_owned();
    requests.lock().push(line);
    let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(answer.as_bytes()).await.unwrap();
}

/// Connects to a server whose requests of HTTP get these answers in turn.
async fn connect(
    server: &InMemory,
    answers: [(&'static str, &'static str); 2],
) -> (ServiceBus, Arc<Mutex<Vec<String>>>, Arc<Mutex<Vec<String>>>) {
    let (requests, audiences) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
    let (amqp, seen, left) = (server.clone(), Arc::clone(&requests), Mutex::new(answers.into_iter()));
    let options = ServiceBus::options().clock(server.clock).plain().dial_with(move |_, port| {
        let stream = if port == HTTP {
            let (client, stub) = tokio::io::duplex(1 << 16);
            let (status, body) = left.lock().next().unwrap();
            tokio::spawn(answer(stub, Arc::clone(&seen), status, body));
            client
        } else {
            amqp.stream()
        };
        async move { Ok(stream) }
    });
    let service_bus = options.connect_with("localhost", Noted(Arc::clone(&audiences))).await.unwrap();
    (service_bus, requests, audiences)
}

/// Rules: K-304, K-312.
#[tokio::test(start_paused = true)]
async fn a_conflict_with_another_operation_is_tried_again() {
    let server = InMemory::new();
    let conflict = "<Error><Code>409</Code><Detail>Another operation on the entity is in progress.</Detail></Error>";
    let (service_bus, requests, _) = connect(&server, [("409 Conflict", conflict), ("200 OK", "")]).await;
    service_bus.delete(&path("orders")).await.unwrap();
    let request = "DELETE /orders?api-version=2021-05 HTTP/1.1";
    assert_eq!(*requests.lock(), [request, request]);
}

/// Rules: K-300, K-312.
#[tokio::test(start_paused = true)]
async fn an_audience_is_that_of_links_of_the_administration_or_of_its_lists() {
    let server = InMemory::new();
    create(&server, QueueSettings::default()).await;
    let (service_bus, _, audiences) = connect(&server, [("404 Not Found", ""), ("404 Not Found", "")]).await;
    service_bus.sender(&path("Orders")).await.unwrap();
    assert_eq!(service_bus.delete(&path("Orders")).await.unwrap_err().kind(), ErrorKind::EntityNotFound);
    assert_eq!(service_bus.list().await.unwrap_err().kind(), ErrorKind::EntityNotFound);
    assert_eq!(*audiences.lock(), ["sb://localhost/orders", "https://localhost/orders", "https://localhost/"]);
}

/// Rules: K-312.
#[tokio::test(start_paused = true)]
async fn listing_fails_if_the_server_repeats_its_page() {
    let entry = |name: usize| {
        let description =
            r#"<QueueDescription xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"/>"#;
        format!(r#"<entry><title>{name:03}</title><content type="application/xml">{description}</content></entry>"#)
    };
    let page: String = (0..100).map(entry).collect();
    let page: &str = format!(r#"<feed xmlns="http://www.w3.org/2005/Atom">{page}</feed>"#).leak();
    let server = InMemory::new();
    let (service_bus, requests, _) = connect(&server, [("200 OK", page), ("200 OK", page)]).await;
    let error = service_bus.list().await.unwrap_err();
    assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::General, false), "{error}");
    assert_eq!(requests.lock().len(), 2);
}
