use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use consign::{
    Disposition, Message,
    administration::QueueSettings,
    broker::Broker as Embedded,
    consumer::Consumer,
    message::{MessageBody, SequenceNumber, Value},
    middleware::{
        busy_pause::BusyPauseLayer,
        claim_check::{
            BlobError, BlobErrorKind, BlobId, BlobStore, Claim, ClaimError, MemoryBlobs, ResolveClaimLayer,
            StoreClaimLayer,
        },
        content_encoding::{CompressLayer, DecompressLayer, Encoding},
        encryption::{DecryptLayer, EncryptLayer},
        keys::{Key, Keys},
        retry::{Backoff, RetryLayer},
        send_retry::SendRetryLayer,
        size_limit::SizeLimitLayer,
    },
    settlement::{DeadLetter, DeadLetterReason},
    transport::{Batch, ErrorKind, SendError, SendExt, SendService},
};
use tokio::sync::Semaphore;
use tokio_test::{assert_pending, task};
use tower::{BoxError, Layer, Service, ServiceBuilder, ServiceExt, limit::GlobalConcurrencyLimitLayer, service_fn};

use super::{
    stacks::{not_sent, received, sent},
    support::Broker,
};

fn blobs() -> MemoryBlobs {
    MemoryBlobs::new(64 << 20)
}

fn claim(message: &Message) -> Claim {
    Claim::of(message).unwrap().unwrap()
}

/// Takes a second for each call, and has failures to come.
#[derive(Clone)]
struct Slow {
    blobs: MemoryBlobs,
    failures: Arc<AtomicU32>,
    kind: BlobErrorKind,
}

impl Slow {
    fn new(blobs: MemoryBlobs, failures: u32) -> Self {
        Self { blobs, failures: Arc::new(failures.into()), kind: BlobErrorKind::Unavailable }
    }

    async fn wait(&self) -> Result<(), BlobError> {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let failed = self.failures.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        failed.map_or(Ok(()), |_| Err(BlobError::new(self.kind)))
    }
}

impl BlobStore for Slow {
    async fn put(&self, id: &BlobId, body: Bytes) -> Result<(), BlobError> {
        self.wait().await?;
        self.blobs.put(id, body).await
    }

    async fn get(&self, id: &BlobId, length: u64) -> Result<Bytes, BlobError> {
        self.wait().await?;
        self.blobs.get(id, length).await
    }

    fn delete(&self, id: &BlobId) -> impl Future<Output = Result<(), BlobError>> + Send {
        self.blobs.delete(id)
    }
}

/// Rules: H-40.
#[test]
fn a_large_body_goes_and_comes_as_a_claim() {
    let blobs = blobs();
    let body = vec![7; 5 << 20];
    let out =
        ServiceBuilder::new().layer(StoreClaimLayer::new(blobs.clone())).layer(SizeLimitLayer::default()).into_inner();
    let message = sent(&out, Message::builder().message_id("m").property("k", 1).build(body.clone()).unwrap());
    assert!(message.size() < 256 && message.body() == &MessageBody::empty(), "{message:?}");
    assert_eq!((blobs.len(), claim(&message).length()), (1, 5 << 20));

    let seen = received(&ResolveClaimLayer::new(blobs.clone()), message).unwrap();
    assert_eq!(
        (seen.payload(), seen.message_id(), seen.application_properties().len()),
        (Some(&body[..]), Some("m"), 1)
    );
    assert_eq!(blobs.len(), 1, "it stays");
}

/// Answers nothing.
struct Silent;

impl BlobStore for Silent {
    async fn put(&self, _: &BlobId, _: Bytes) -> Result<(), BlobError> {
        std::future::pending().await
    }

    async fn get(&self, _: &BlobId, _: u64) -> Result<Bytes, BlobError> {
        std::future::pending().await
    }

    async fn delete(&self, _: &BlobId) -> Result<(), BlobError> {
        std::future::pending().await
    }
}

/// Rules: H-45.
#[tokio::test(start_paused = true)]
async fn a_store_that_does_not_answer_is_given_up() {
    let began = tokio::time::Instant::now();
    let broker = Broker::default();
    let sending = StoreClaimLayer::new(Silent).layer(SendService::new(broker.clone()));
    let error = sending.oneshot(Message::new(vec![7; 1 << 20])).await.unwrap_err();
    assert_eq!((error.kind(), broker.transfers()), (ErrorKind::Throttled, 0));
    let text = error.to_string();
    assert!(text.contains("the broker was not called (the blob store failed, or did not answer)"), "{text}");
    assert_eq!(began.elapsed(), Duration::from_secs(60));

    let message = sent(&StoreClaimLayer::new(blobs()), Message::new(vec![7; 1 << 20]));
    let handler = service_fn(|_: Message| async { Ok::<_, BoxError>(Disposition::Complete) });
    let layer = ResolveClaimLayer::new(Silent).operation_timeout(Duration::from_secs(5));
    let error = layer.layer(handler).oneshot(message.clone()).await.unwrap_err();
    assert!(error.downcast_ref::<BlobError>().unwrap().is_retryable());
    assert!(matches!(layer.resolve(message).await, Err(ClaimError::Blob(error)) if error.is_retryable()));
    assert_eq!(began.elapsed(), Duration::from_secs(70));
}

/// Rules: H-40, H-42.
#[tokio::test]
async fn a_claim_is_resolved_outside_of_a_stack() {
    let blobs = blobs();
    let body = vec![7; 1 << 20];
    let layer = ResolveClaimLayer::new(blobs.clone());
    let message = sent(&StoreClaimLayer::new(blobs), Message::new(body.clone()));
    let resolved = layer.resolve(message.clone()).await.unwrap();
    assert_eq!((resolved.payload(), resolved.application_properties().len()), (Some(&body[..]), 0));
    assert_eq!(layer.resolve(resolved.clone()).await.unwrap().payload(), Some(&body[..]));
    let error = ResolveClaimLayer::new(MemoryBlobs::new(1)).resolve(message).await.unwrap_err();
    assert_eq!(error.reason(), DeadLetterReason::ClaimMissing);
}

/// Rules: H-40.
#[test]
fn small_bodies_and_bodies_without_bytes_stay_in_the_message() {
    let blobs = blobs();
    let layer = StoreClaimLayer::new(blobs.clone()).threshold(100);
    for (body, stays) in [
        (MessageBody::from(vec![0; 99]), true),
        (MessageBody::from(vec![0; 100]), false),
        (MessageBody::from(Value::from("x".repeat(1_000))), true),
        (MessageBody::sections(vec![Bytes::from(vec![1; 60]), Bytes::from(vec![2; 60])]), false),
    ] {
        let message = sent(&layer, Message::new(body.clone()));
        assert_eq!(message.body() == &body, stays, "{body:?}");
        let seen = received(&ResolveClaimLayer::new(blobs.clone()), message).unwrap();
        assert_eq!(seen.payload(), Message::new(body).payload());
    }
    assert_eq!(blobs.len(), 2);
}

/// Rules: H-40.
#[test]
fn a_batch_is_checked_in_before_any_of_it_is_sent() {
    let blobs = blobs();
    let broker = Broker::default();
    let mut stack = StoreClaimLayer::new(blobs.clone()).threshold(5).layer(SendService::new(broker.clone()));
    let batch = ["first", "no", "third"].map(Message::new).to_vec();
    assert_pending!(task::spawn(stack.call(Batch::from(batch))).poll());
    let messages = broker.messages(0);
    assert_eq!(messages.iter().map(|message| Claim::of(message).is_some()).collect::<Vec<_>>(), [true, false, true]);
    assert_ne!(claim(&messages[0]).id(), claim(&messages[2]).id());
    assert_eq!(blobs.len(), 2);
}

/// Rules: H-41.
#[test]
fn a_claim_has_one_spelling_and_is_no_address() {
    let claim = Claim::new(BlobId::random(), b"abc");
    let text = claim.to_string();
    assert_eq!(text.parse::<Claim>().unwrap(), claim);
    assert!(text.ends_with(":3:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"), "{text}");
    let digest = &text[text.len() - 64..];
    let id = claim.id();
    for wrong in [
        String::new(),
        "https://example.com/blob".into(),
        "file:///etc/passwd".into(),
        text.to_uppercase(),
        text.replacen('1', "2", 1),
        format!("{text} "),
        format!(" {text}"),
        format!("1:{id}:+3:{digest}"),
        format!("1:{id}:03:{digest}"),
        format!("1:{id}:-3:{digest}"),
        format!("1:{id}:18446744073709551616:{digest}"),
        format!("1:../../../../../../../../etc/passwd:3:{digest}"),
        format!("1:{}:3:{digest}", "../".repeat(10) + "ab"),
        format!("1:{}:3:{digest}", "é".repeat(16)),
        format!("1:{id}:3:{}", &digest[1..]),
        format!("1:{id}:3:{digest}:"),
    ] {
        wrong.parse::<Claim>().expect_err(&wrong);
        let mut message = Message::new("");
        message.properties_mut().application_properties_mut().insert(Claim::PROPERTY, wrong);
        let DeadLetter { reason, description, .. } = received(&ResolveClaimLayer::new(blobs()), message).unwrap_err();
        assert_eq!((reason, &*description), (DeadLetterReason::ClaimMissing, "the claim is malformed"));
    }
    let mut message = Message::new("");
    message.properties_mut().application_properties_mut().insert(Claim::PROPERTY, 7);
    received(&ResolveClaimLayer::new(blobs()), message).unwrap_err();
}

/// Rules: H-42.
#[tokio::test]
async fn a_missing_or_changed_blob_is_a_dead_letter_at_once() {
    let blobs = blobs();
    let message = sent(&StoreClaimLayer::new(blobs.clone()).threshold(1), Message::new("a body"));
    let id = *claim(&message).id();
    let layer = ResolveClaimLayer::new(blobs.clone());
    for (body, why) in [
        (Some("A body"), "the digest of the blob is not that of the claim".to_owned()),
        (Some("a body."), format!("the blob has a different length (blob {id})")),
        (None, format!("the blob does not exist (blob {id})")),
    ] {
        match body {
            Some(body) => blobs.put(&id, body.into()).await.unwrap(),
            None => blobs.delete(&id).await.unwrap(),
        }
        // By hand, for `received` waits by itself.
        let never = service_fn(|_: Message| async { Err::<Disposition, BoxError>("a handler saw it".into()) });
        let Disposition::DeadLetter(letter) = layer.layer(never).oneshot(message.clone()).await.unwrap() else {
            panic!("a dead letter")
        };
        assert_eq!((letter.reason, &*letter.description), (DeadLetterReason::ClaimMissing, &*why));
    }
}

/// Gives what there is, whatever the length that is asked for.
struct AnyLength(MemoryBlobs);

impl BlobStore for AnyLength {
    fn put(&self, id: &BlobId, body: Bytes) -> impl Future<Output = Result<(), BlobError>> + Send {
        self.0.put(id, body)
    }

    async fn get(&self, id: &BlobId, _: u64) -> Result<Bytes, BlobError> {
        self.0.get(id, 6).await
    }

    fn delete(&self, id: &BlobId) -> impl Future<Output = Result<(), BlobError>> + Send {
        self.0.delete(id)
    }
}

/// Rules: H-42.
#[tokio::test]
async fn a_store_that_ignores_the_length_is_not_trusted() {
    let blobs = blobs();
    let mut message = sent(&StoreClaimLayer::new(blobs.clone()).threshold(1), Message::new("a body"));
    let less = claim(&message).to_string().replace(":6:", ":5:");
    message.properties_mut().application_properties_mut().insert(Claim::PROPERTY, less);
    let never = service_fn(|_: Message| async { Err::<Disposition, BoxError>("a handler saw it".into()) });
    // By the claim alone it is within the limit.
    let stack = ResolveClaimLayer::new(AnyLength(blobs)).max_bytes(5).layer(never);
    let Disposition::DeadLetter(letter) = stack.oneshot(message).await.unwrap() else { panic!("a dead letter") };
    assert_eq!(letter.reason, DeadLetterReason::ClaimMissing);
}

/// Rules: H-42.
#[tokio::test(start_paused = true)]
async fn one_delivery_and_no_more() {
    let queue = Embedded::new().create_queue("orders", QueueSettings::default()).unwrap();
    let layer = StoreClaimLayer::new(blobs()).threshold(1);
    layer.layer(SendService::new(queue.sender().unwrap())).send(Message::new("a body")).await.unwrap();
    let handler = service_fn(|_: Message| async { Ok::<_, BoxError>(Disposition::Complete) });
    // Another store, where nothing is.
    let stack = RetryLayer::new().immediate(5).layer(ResolveClaimLayer::new(blobs()).layer(handler));
    let stats =
        Consumer::new(queue.receiver(), stack).run_until(tokio::time::sleep(Duration::from_millis(50))).await.unwrap();
    assert_eq!((stats.dead_lettered(), stats.abandoned(), stats.completed()), (1, 0, 0));
    let dead = queue.dead_letter().peek(SequenceNumber::default(), 1).remove(0);
    assert_eq!(dead.dead_letter_reason(), Some("ClaimMissing"));
    assert_eq!(claim(&dead).length(), 6);
}

/// Rules: H-43.
#[test]
fn a_length_over_the_limit_is_not_read() {
    let blobs = blobs();
    let message = sent(&StoreClaimLayer::new(blobs.clone()).threshold(1), Message::new(vec![0; 1_000]));
    received(&ResolveClaimLayer::new(blobs.clone()).max_bytes(1_000), message.clone()).unwrap();
    let letter = received(&ResolveClaimLayer::new(blobs.clone()).max_bytes(999), message.clone()).unwrap_err();
    assert_eq!(letter.reason, DeadLetterReason::LimitExceeded);
    let both = received(&ResolveClaimLayer::new(blobs), message.with_body("more")).unwrap_err();
    assert_eq!(
        (both.reason, &*both.description),
        (DeadLetterReason::ClaimMissing, "the message has both a claim and a body")
    );
    // Whatever the length that is claimed.
    let mut message = Message::new("");
    let claim = format!("1:{}:{}:{}", BlobId::random(), u64::MAX, "0".repeat(64));
    message.properties_mut().application_properties_mut().insert(Claim::PROPERTY, claim);
    let layer = ResolveClaimLayer::new(MemoryBlobs::new(0)).max_bytes(u64::MAX);
    assert_eq!(received(&layer, message).unwrap_err().reason, DeadLetterReason::LimitExceeded);
}

/// Rules: H-45.
#[tokio::test(start_paused = true)]
async fn a_store_that_does_not_answer_pauses_no_other_send_and_is_tried_again() {
    let (pause, broker) = (BusyPauseLayer::new(), Broker::default());
    let sender = ServiceBuilder::new()
        .layer(&pause)
        .layer(StoreClaimLayer::new(Silent))
        .service(SendService::new(broker.clone()));
    let error = sender.oneshot(Message::new(vec![7; 1 << 20])).await.unwrap_err();
    assert_eq!((error.kind(), error.is_outcome_unknown(), pause.is_paused()), (ErrorKind::Throttled, false, false));

    let slow = StoreClaimLayer::new(Slow::new(blobs(), 1)).threshold(1);
    let retry = SendRetryLayer::new(Backoff::fixed(Duration::from_secs(1)));
    let sender = ServiceBuilder::new().layer(retry).layer(slow).service(SendService::new(broker.clone()));
    let send = tokio::spawn(sender.oneshot(Message::new("a body")));
    while broker.transfers() == 0 {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    broker.answer(0, Ok(()));
    send.await.unwrap().unwrap();
    assert_eq!(broker.transfers(), 1);
}

/// Rules: H-45.
#[tokio::test(start_paused = true)]
async fn a_store_that_does_not_answer_is_tried_again() {
    let start = tokio::time::Instant::now();
    let blobs = blobs();
    let sender = StoreClaimLayer::new(Slow::new(blobs.clone(), 1)).threshold(1);
    let broker = Arc::new(AtomicU32::new(0));
    let sends = Arc::clone(&broker);
    let transport = service_fn(move |message: Message| {
        sends.fetch_add(1, Ordering::Relaxed);
        async move { claim_of(&message) }
    });
    let error = sender.layer(transport.clone()).oneshot(Message::new("a body")).await.unwrap_err();
    assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::Throttled, true));
    assert_eq!((broker.load(Ordering::Relaxed), start.elapsed()), (0, Duration::from_secs(1)));
    sender.layer(transport).oneshot(Message::new("a body")).await.unwrap();
    assert_eq!((broker.load(Ordering::Relaxed), start.elapsed()), (1, Duration::from_secs(2)));

    let message = sent(&StoreClaimLayer::new(blobs.clone()).threshold(1), Message::new("a body"));
    let handler = service_fn(|message: Message| async move {
        assert_eq!(message.payload(), Some(&b"a body"[..]));
        Ok::<_, BoxError>(Disposition::Complete)
    });
    let layer = ResolveClaimLayer::new(Slow::new(blobs.clone(), 2));
    let error = layer.layer(handler).oneshot(message.clone()).await.unwrap_err();
    assert_eq!(error.downcast_ref::<BlobError>().map(BlobError::kind), Some(BlobErrorKind::Unavailable));
    let stack = RetryLayer::new().immediate(1).layer(layer.layer(handler));
    assert_eq!(stack.oneshot(message).await.unwrap(), Disposition::Complete);
    assert_eq!(start.elapsed(), Duration::from_secs(5));
}

fn claim_of(message: &Message) -> Result<(), SendError> {
    Claim::of(message).map(drop).ok_or(SendError::new(ErrorKind::General))
}

/// Rules: H-45.
#[tokio::test]
async fn a_full_store_and_a_claim_of_the_senders_own_are_refused() {
    let layer = StoreClaimLayer::new(MemoryBlobs::new(10)).threshold(1);
    assert_eq!(not_sent(&layer, Message::new("eleven byte")).kind(), ErrorKind::QuotaExceeded);
    let mut message = Message::new("");
    message.properties_mut().application_properties_mut().insert(Claim::PROPERTY, "1:");
    assert_eq!(not_sent(&layer, message).kind(), ErrorKind::InvalidArgument);
}

/// Rules: H-46.
#[test]
fn the_store_has_what_is_compressed_and_encrypted() {
    let blobs = blobs();
    let keys = Keys::new(Key::new("1", [1; 32]).unwrap());
    let lines = (0..1_000).map(|n| format!("line {n} of a thousand\n")).collect::<Vec<_>>().concat();
    let out = ServiceBuilder::new()
        .layer(CompressLayer::new(Encoding::Zstd))
        .layer(EncryptLayer::new(keys.clone()))
        .layer(StoreClaimLayer::new(blobs.clone()).threshold(100));
    let message = sent(&out.into_inner(), Message::new(lines.clone()));
    assert!((100..10_000).contains(&claim(&message).length()), "{}", claim(&message));
    let into = ServiceBuilder::new()
        .layer(ResolveClaimLayer::new(blobs))
        .layer(DecryptLayer::new(keys))
        .layer(DecompressLayer::new([Encoding::Zstd]));
    assert_eq!(received(&into.into_inner(), message).unwrap().payload(), Some(lines.as_bytes()));
}

#[tokio::test(start_paused = true)]
async fn a_small_message_does_not_wait_for_the_store() {
    let start = tokio::time::Instant::now();
    let layer = ResolveClaimLayer::new(Slow::new(blobs(), 0));
    let stack = layer.layer(service_fn(|_: Message| async { Ok::<_, BoxError>(Disposition::Complete) }));
    stack.oneshot(Message::new("a body")).await.unwrap();
    assert_eq!(start.elapsed(), Duration::ZERO);
}

/// Rules: H-230.
/// A store may take long, or never answer; the permit of a shared limit is for others meanwhile.
#[tokio::test(start_paused = true)]
async fn a_claim_holds_no_place_in_the_stack_inside_while_the_store_answers() {
    let limit = Arc::new(Semaphore::new(1));
    let limited = GlobalConcurrencyLimitLayer::with_semaphore(Arc::clone(&limit));
    let slow = Slow::new(blobs(), 0);
    let broker = Broker::default();
    let mut sending =
        StoreClaimLayer::new(slow.clone()).threshold(1).layer(limited.layer(SendService::new(broker.clone())));
    let mut send =
        task::spawn(ServiceExt::<Message>::ready(&mut sending).await.unwrap().call(Message::new("a large body")));
    assert_pending!(send.poll());
    drop(limit.try_acquire().expect("the send that stores its body holds the permit"));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_pending!(send.poll());
    assert_eq!((broker.transfers(), limit.available_permits()), (1, 0));
    let with_claim = broker.messages(0).remove(0);
    drop(send);

    let handler = service_fn(|_: Message| async { Ok::<_, BoxError>(Disposition::Complete) });
    let mut receiving = ResolveClaimLayer::new(slow).layer(limited.layer(handler));
    let mut call = task::spawn(receiving.ready().await.unwrap().call(with_claim));
    assert_pending!(call.poll());
    drop(limit.try_acquire().expect("the call that fetches its body holds the permit"));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(call.await.unwrap(), Disposition::Complete);
}
