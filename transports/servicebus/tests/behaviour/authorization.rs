//! Tokens of `$cbs`.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use consign::{
    Disposition, Message,
    administration::{Administration, QueueSettings},
    consumer::{Consumer, SessionConsumer},
    transport::{AcceptSession, BoxFuture, ErrorKind, ReceiveMode, ReceiverExt, Sender, Session, Sessions, Transport},
};
use consign_conformance::log::Lines;
use consign_server::{
    Timeouts,
    auth::{Rights, SharedAccessKey as ServerKey, SharedAccessKeys},
};
use consign_servicebus::{AccessToken, CredentialError, ServiceBus, SharedAccessKey, TokenCredential, TokenType};
use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{InMemory, create, path, receiver, send, text};
use crate::support::TokioClock;

fn keys(clock: TokioClock) -> SharedAccessKeys {
    let keys = [
        ServerKey::new("root", "s3cret", Rights::MANAGE),
        ServerKey::new("reader", "s3cret of reader", Rights::LISTEN),
        ServerKey::new("orders", "s3cret of orders", Rights::MANAGE).entity("orders"),
    ];
    SharedAccessKeys::new(keys).clock(clock)
}

/// A server with keys. Its links may idle.
fn server() -> InMemory {
    let day = Duration::from_secs(86_400);
    let timeouts = Timeouts::default().idle_link(day).idle_connection(day).new_connection(day);
    InMemory::with(|clock, builder| builder.authorizer(keys(clock)).timeouts(timeouts.authorization(day)))
}

async fn connect(server: &InMemory, name: &str, key: &str) -> ServiceBus {
    let credential = SharedAccessKey::new(name, key).clock(server.clock);
    server.connect_with(credential).await
}

/// Rules: K-300, G-01, G-04.
#[tokio::test(start_paused = true)]
async fn a_key_has_its_rights() {
    let server = server();
    let orders = create(&server, QueueSettings::default()).await;
    let root = connect(&server, "root", "s3cret").await;
    send(&root, &orders, &["a"]).await;
    let reader = connect(&server, "reader", "s3cret of reader").await;
    let refused = reader.sender(&orders).await.unwrap_err();
    assert_eq!((refused.kind(), refused.is_retryable()), (ErrorKind::Unauthorized, false), "{refused}");
    let delivery = receiver(&reader, &orders).await.receive().await.unwrap();
    assert_eq!(text(&delivery.message), "a");
    delivery.complete().await.unwrap();
    let of_one = connect(&server, "orders", "s3cret of orders").await;
    send(&of_one, &orders, &["b"]).await;
}

/// Rules: K-300, K-306.
#[tokio::test(start_paused = true)]
async fn a_wrong_key_is_unauthorized_and_not_shown() {
    let server = server();
    let orders = create(&server, QueueSettings::default()).await;
    let wrong = connect(&server, "root", "wr0ng").await;
    let error = wrong.receiver(&orders, ReceiveMode::PeekLock).await.unwrap_err();
    assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::Unauthorized, false));
    let shown = format!("{error} {error:?} {wrong:?}");
    assert!(shown.contains("InvalidSignature") && !shown.contains("wr0ng") && !shown.contains("sig="), "{shown}");
}

/// Counts the tokens of a key.
struct Counted(SharedAccessKey, Arc<AtomicUsize>);

impl TokenCredential for Counted {
    fn token(&self, audience: &str) -> BoxFuture<Result<AccessToken, CredentialError>> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.token(audience)
    }
}

/// A link whose token expires is detached, and the lock of a session is lost with its link.
/// Rules: K-300, G-06.
#[tokio::test(start_paused = true)]
async fn a_token_is_renewed_before_it_expires() {
    let server = server();
    let orders = create(&server, QueueSettings::default().requires_session(true)).await;
    let tokens = Arc::new(AtomicUsize::new(0));
    let key = SharedAccessKey::new("root", "s3cret").clock(server.clock).lifetime(Duration::from_secs(600));
    let service_bus = server.connect_with(Counted(key, Arc::clone(&tokens))).await;
    let session = service_bus.sessions(&orders).await.unwrap().accept("one").await.unwrap();
    for _ in 0..360 {
        tokio::time::sleep(Duration::from_secs(10)).await;
        session.renew().await.unwrap();
    }
    let tokens = tokens.load(Ordering::Relaxed);
    assert!((6..=10).contains(&tokens), "{tokens} tokens of 10 minutes in an hour");
}

/// Rules: K-300.
#[tokio::test(start_paused = true)]
async fn callers_of_one_entity_share_the_attempt_to_authorize() {
    let server = server();
    let orders = create(&server, QueueSettings::default()).await;
    let tokens = Arc::new(AtomicUsize::new(0));
    let key = SharedAccessKey::new("root", "s3cret").clock(server.clock);
    let service_bus = server.connect_with(Counted(key, Arc::clone(&tokens))).await;
    let receivers = (0..50).map(|_| service_bus.receiver(&orders, ReceiveMode::PeekLock));
    for receiver in join_all(receivers).await {
        receiver.unwrap();
    }
    assert_eq!(tokens.load(Ordering::Relaxed), 1);
    // The first caller is dropped. Another one ends the attempt.
    let invoices = path("invoices");
    Administration::create(server.broker(), &invoices, &QueueSettings::default().into()).await.unwrap();
    let mut first = Box::pin(service_bus.receiver(&invoices, ReceiveMode::PeekLock));
    assert!(futures_util::poll!(&mut first).is_pending());
    let mut second = Box::pin(service_bus.receiver(&invoices, ReceiveMode::PeekLock));
    assert!(futures_util::poll!(&mut second).is_pending());
    drop(first);
    second.await.unwrap();
    assert_eq!(tokens.load(Ordering::Relaxed), 2);
}

/// Has no token at first.
struct Late(AtomicUsize);

impl TokenCredential for Late {
    fn token(&self, _: &str) -> BoxFuture<Result<AccessToken, CredentialError>> {
        let token = match self.0.fetch_add(1, Ordering::Relaxed) {
            0 | 1 => Err(CredentialError::temporary("the vault is sealed")),
            _ => Ok(AccessToken::new(TokenType::Jwt, "a token")),
        };
        Box::pin(std::future::ready(token))
    }
}

/// Rules: K-304.
#[tokio::test(start_paused = true)]
async fn a_credential_without_a_token_for_a_while_is_tried_again() {
    let server = InMemory::new();
    let orders = create(&server, QueueSettings::default()).await;
    let service_bus = server.connect_with(Late(AtomicUsize::new(0))).await;
    send(&service_bus, &orders, &["a"]).await;
}

/// Signed elsewhere, so that there is no other one.
/// Rules: K-300.
#[tokio::test(start_paused = true)]
async fn a_signature_that_cannot_be_renewed_is_used_until_it_expires() {
    let server = server();
    let orders = create(&server, QueueSettings::default()).await;
    let key = SharedAccessKey::new("root", "s3cret").clock(server.clock).lifetime(Duration::from_secs(600));
    let tokens = Arc::new(AtomicUsize::new(0));
    let signed = Signed(key.token("sb://localhost/").await.unwrap(), Arc::clone(&tokens));
    let service_bus = server.connect_with(signed).await;
    let sender = service_bus.sender(&orders).await.unwrap();
    tokio::time::sleep(Duration::from_secs(595)).await;
    sender.send(Message::new("a")).await.unwrap();
    // The first attempt is at 540 s. The pauses before the next ones are 2, 4, 8 and 16 s.
    assert_eq!(tokens.load(Ordering::Relaxed), 6, "one for the link, and five attempts to renew it");
    tokio::time::sleep(Duration::from_secs(10)).await;
    let error = sender.send(Message::new("b")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unauthorized, "{error}");
}

/// Always the same token.
struct Signed(AccessToken, Arc<AtomicUsize>);

impl TokenCredential for Signed {
    fn token(&self, _: &str) -> BoxFuture<Result<AccessToken, CredentialError>> {
        self.1.fetch_add(1, Ordering::Relaxed);
        Box::pin(std::future::ready(Ok(self.0.clone())))
    }
}

/// Rules: K-300.
#[tokio::test(start_paused = true)]
async fn a_credential_that_repeats_its_token_for_a_while_is_asked_again() {
    let server = server();
    let orders = create(&server, QueueSettings::default().requires_session(true)).await;
    let key = SharedAccessKey::new("root", "s3cret").clock(server.clock).lifetime(Duration::from_secs(600));
    let service_bus = server.connect_with(Caching { key, calls: AtomicUsize::new(0), kept: Arc::default() }).await;
    let session = service_bus.sessions(&orders).await.unwrap().accept("one").await.unwrap();
    for _ in 0..180 {
        tokio::time::sleep(Duration::from_secs(10)).await;
        session.renew().await.unwrap();
    }
}

/// Returns each token three times.
struct Caching {
    key: SharedAccessKey,
    calls: AtomicUsize,
    kept: Arc<Mutex<Option<AccessToken>>>,
}

impl TokenCredential for Caching {
    fn token(&self, audience: &str) -> BoxFuture<Result<AccessToken, CredentialError>> {
        let kept = self.kept.lock().clone();
        if !self.calls.fetch_add(1, Ordering::Relaxed).is_multiple_of(3)
            && let Some(token) = kept
        {
            return Box::pin(std::future::ready(Ok(token)));
        }
        let (token, kept) = (self.key.token(audience), Arc::clone(&self.kept));
        Box::pin(async move {
            let token = token.await?;
            *kept.lock() = Some(token.clone());
            Ok(token)
        })
    }
}

/// An attempt to renew a token that has no answer ends at the timeout of a call, and another one follows.
/// Rules: K-300.
#[tokio::test(start_paused = true)]
async fn a_credential_that_does_not_answer_is_asked_again() {
    let (lines, _guard) = Lines::capture();
    let server = server();
    let orders = create(&server, QueueSettings::default().requires_session(true)).await;
    let key = SharedAccessKey::new("root", "s3cret").clock(server.clock).lifetime(Duration::from_secs(3_600));
    let service_bus = server.connect_with(Silent(key, AtomicUsize::new(0))).await;
    let session = service_bus.sessions(&orders).await.unwrap().accept("one").await.unwrap();
    for _ in 0..400 {
        tokio::time::sleep(Duration::from_secs(10)).await;
        session.renew().await.unwrap();
    }
    let warned = lines.of("consign::servicebus");
    assert!(warned.len() == 1 && warned[0].contains("a token was not renewed"), "{warned:?}");
}

/// Does not answer the second call.
struct Silent(SharedAccessKey, AtomicUsize);

impl TokenCredential for Silent {
    fn token(&self, audience: &str) -> BoxFuture<Result<AccessToken, CredentialError>> {
        match self.1.fetch_add(1, Ordering::Relaxed) {
            1 => Box::pin(std::future::pending()),
            _ => self.0.token(audience),
        }
    }
}

/// Rules: K-304.
#[tokio::test(start_paused = true)]
async fn a_send_asks_for_a_token_as_often_as_a_call_is_repeated() {
    let server = InMemory::new();
    let orders = create(&server, QueueSettings::default()).await;
    let calls = Arc::new(AtomicUsize::new(0));
    let service_bus = server.connect_with(Once(Arc::clone(&calls))).await;
    let sender = service_bus.sender(&orders).await.unwrap();
    service_bus.disconnect().await.unwrap();
    let error = sender.send(Message::new("a")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ServiceBusy, "{error}");
    assert_eq!(calls.load(Ordering::Relaxed), 1 + 4, "one for the link, and those of the send with three repetitions");
}

/// Has one token.
struct Once(Arc<AtomicUsize>);

impl TokenCredential for Once {
    fn token(&self, _: &str) -> BoxFuture<Result<AccessToken, CredentialError>> {
        let token = match self.0.fetch_add(1, Ordering::Relaxed) {
            0 => Ok(AccessToken::new(TokenType::Jwt, "a token")),
            _ => Err(CredentialError::temporary("the vault is sealed")),
        };
        Box::pin(std::future::ready(token))
    }
}

/// Has no token for a while.
struct Away(SharedAccessKey, Instant);

impl TokenCredential for Away {
    fn token(&self, audience: &str) -> BoxFuture<Result<AccessToken, CredentialError>> {
        if (530..700).contains(&self.1.elapsed().as_secs()) {
            return Box::pin(std::future::ready(Err(CredentialError::temporary("the vault is sealed"))));
        }
        self.0.token(audience)
    }
}

async fn away(server: &InMemory) -> ServiceBus {
    let key = SharedAccessKey::new("root", "s3cret").clock(server.clock).lifetime(Duration::from_secs(600));
    server.connect_with(Away(key, Instant::now())).await
}

/// A handler that counts, and its count.
fn counting() -> (impl Fn(Message) -> std::future::Ready<Disposition> + Clone + Send + 'static, Arc<AtomicUsize>) {
    let handled = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&handled);
    let handler = move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        std::future::ready(Disposition::Complete)
    };
    (handler, handled)
}

/// The token expires at 600 s. The link is detached then.
/// Rules: K-300.
#[tokio::test(start_paused = true)]
async fn a_consumer_goes_on_after_a_token_that_was_not_renewed_in_time() {
    let server = server();
    let orders = create(&server, QueueSettings::default()).await;
    let receiver = receiver(&away(&server).await, &orders).await;
    let (handler, handled) = counting();
    let running = tokio::spawn(Consumer::new(receiver, handler).run_until(std::future::pending::<()>()));
    tokio::time::sleep(Duration::from_secs(800)).await;
    send(&connect(&server, "root", "s3cret").await, &orders, &["a"]).await;
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert!(!running.is_finished(), "{:?}", running.await);
    assert_eq!(handled.load(Ordering::Relaxed), 1);
}

/// Rules: K-300.
#[tokio::test(start_paused = true)]
async fn a_consumer_of_sessions_goes_on_after_a_token_that_was_not_renewed_in_time() {
    let server = server();
    let orders = create(&server, QueueSettings::default().requires_session(true)).await;
    let root = connect(&server, "root", "s3cret").await;
    let sender = root.sender(&orders).await.unwrap();
    let send = async || sender.send(Message::builder().session_id("one").build("a").unwrap()).await.unwrap();
    let sessions = away(&server).await.sessions(&orders).await.unwrap();
    let (handler, handled) = counting();
    let consumer = SessionConsumer::new(sessions, handler).idle_timeout(Duration::from_secs(3_600));
    let running = tokio::spawn(consumer.run_until(std::future::pending::<()>()));
    // The session is held when the token expires.
    send().await;
    tokio::time::sleep(Duration::from_secs(800)).await;
    assert_eq!(handled.load(Ordering::Relaxed), 1);
    send().await;
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert!(!running.is_finished(), "{:?}", running.await);
    assert_eq!(handled.load(Ordering::Relaxed), 2);
}
