//! The layers that change bodies, in a pipeline.

use std::{
    future::{Ready, ready},
    time::Duration,
};

use consign::{
    Disposition, Message,
    broker::{Broker, QueueSettings},
    codecs::Codecs,
    middleware::{
        catch_panic::CatchPanicLayer,
        circuit_breaker::CircuitBreakerLayer,
        claim_check::{CheckInLayer, CheckOutLayer, MemoryBlobs},
        content_encoding::{CompressLayer, DecompressLayer, Encoding},
        dead_letter::DeadLetterLayer,
        dedup::{DedupLayer, MemoryStore},
        encode::{EncodeLayer, Outgoing},
        encryption::{DecryptLayer, EncryptLayer},
        expiry::ExpiryLayer,
        in_flight::InFlightLayer,
        keys::{Key, Keys},
        lock_renewal::LockRenewalLayer,
        message_id::MessageIdLayer,
        renewal::Renewal,
        retry::RetryLayer,
        signing::{SignLayer, VerifyLayer},
        size_limit::SizeLimitLayer,
        trace::TraceLayer,
    },
    pipeline::{Describe, LayerInfo, Pipeline, PipelineErrorKind as Kind},
    routing::{Body, Router},
    time::SystemClock,
    transport::{ReceiverExt, SendExt, SendService, SettleError},
};
use tower::{
    BoxError, Layer, ServiceExt,
    layer::util::{Identity, Stack},
    service_fn,
};

const MINUTE: Duration = Duration::from_secs(60);

fn key(id: &str) -> Key {
    Key::new(id, [id.as_bytes()[0]; 32]).unwrap()
}

fn to_encrypt() -> Keys {
    Keys::new(key("2026"))
}

fn to_sign() -> Keys {
    Keys::new(key("signs"))
}

fn dedup() -> DedupLayer<MemoryStore> {
    DedupLayer::new(MemoryStore::new(10 * MINUTE), "orders")
}

fn decompress() -> DecompressLayer {
    DecompressLayer::new([Encoding::Gzip, Encoding::Zstd])
}

fn compress() -> CompressLayer {
    CompressLayer::new(Encoding::Gzip)
}

fn sign() -> SignLayer {
    SignLayer::new(to_sign())
}

fn encrypt() -> EncryptLayer {
    EncryptLayer::new(to_encrypt())
}

fn check_in() -> CheckInLayer<MemoryBlobs> {
    CheckInLayer::new(blobs())
}

fn check_out() -> CheckOutLayer<MemoryBlobs> {
    CheckOutLayer::new(blobs())
}

fn verify() -> VerifyLayer {
    VerifyLayer::new(to_sign())
}

fn decrypt() -> DecryptLayer {
    DecryptLayer::new(to_encrypt())
}

fn blobs() -> MemoryBlobs {
    MemoryBlobs::new(1 << 20)
}

fn renewal() -> LockRenewalLayer<impl Fn(&Message) -> Ready<Result<(), SettleError>> + Clone> {
    LockRenewalLayer::new(|_: &Message| ready(Ok(())), Renewal::new(MINUTE))
}

macro_rules! service {
    () => {
        service_fn(async |_: Message| Ok::<_, BoxError>(()))
    };
}

/// Says what a layer says, and adds nothing to a stack.
struct Says<D>(D);

impl<D: Describe> Describe for Says<D> {
    fn info(&self) -> LayerInfo {
        self.0.info()
    }
}

impl<S, D> Layer<S> for Says<D> {
    type Service = S;

    fn layer(&self, inner: S) -> S {
        inner
    }
}

/// One order of two layers is built, and the other one is not.
#[track_caller]
fn stands(pipeline: fn(&'static str) -> Pipeline<Identity>, inner: impl Describe, outer: impl Describe, says: &str) {
    let built = pipeline("q").layer(Says(&outer)).layer(Says(&inner)).service(service!());
    built.map(drop).unwrap();
    let wrong = pipeline("q").layer(Says(inner)).layer(Says(outer)).service(service!()).map(drop).unwrap_err();
    assert_eq!((wrong.kind(), wrong.to_string()), (Kind::LayerOrder, says.to_owned()));
}

#[tokio::test]
async fn j_46_a_whole_row_says_what_it_is_made_of() {
    let (queue, blobs) = (Broker::new().create_queue("orders", QueueSettings::default()).unwrap(), blobs());
    let sending = Pipeline::sending("to orders")
        .layer(TraceLayer::sending("orders"))
        .layer(MessageIdLayer::new())
        .layer(EncodeLayer::new(Codecs::json()))
        .layer(CompressLayer::new(Encoding::Zstd))
        .layer(EncryptLayer::new(to_encrypt()))
        .layer(SignLayer::new(to_sign()))
        .layer(CheckInLayer::new(blobs.clone()).threshold(64))
        .layer(SizeLimitLayer::new(1_000))
        .layer(InFlightLayer::new(100))
        .service(SendService::new(queue.sender().unwrap()))
        .unwrap();
    let text = sending.describe().to_string();
    let head = "\
to orders, sending
layers, outer to inner
  1 trace: destination orders
  2 message_id
  3 encode
  4 compress: encoding zstd, threshold 1024
  5 encrypt
  6 sign
  7 check_in: threshold 64
  8 size_limit: bytes 1000
  9 in_flight: limit 100
codecs";
    assert!(text.starts_with(head), "{text}");
    let order = vec!["a line that comes again and again".to_owned(); 100];
    sending.into_service().send(Outgoing::new(order)).await.unwrap();

    let read = async |Body(lines): Body<Vec<String>>| assert_eq!(lines.len(), 100);
    let receiving = Pipeline::receiving("orders")
        .layer(TraceLayer::receiving("orders\n"))
        .layer(DeadLetterLayer::new())
        .layer(CatchPanicLayer::new())
        .layer(renewal())
        .layer(ExpiryLayer::new(SystemClock::new()))
        .layer(RetryLayer::new().immediate(2))
        .layer(CircuitBreakerLayer::new(5, 10, MINUTE))
        .layer(dedup())
        .layer(CheckOutLayer::new(blobs).max_bytes(1 << 20))
        .layer(VerifyLayer::new(to_sign()).allow_unsigned())
        .layer(DecryptLayer::new(to_encrypt()))
        .layer(decompress().max_ratio(50))
        .router(Router::new(Codecs::json()).otherwise(read).build().unwrap())
        .unwrap();
    let text = receiving.describe().to_string();
    let head = "\
orders, receiving
layers, outer to inner
  1 trace: destination orders\\n
  2 dead_letter
  3 catch_panic
  4 lock_renewal: lock 60s, every 30s
  5 expiry
  6 retry: immediate 2
  7 circuit_breaker
  8 dedup: scope orders
  9 check_out: bytes 1048576
  10 verify: unsigned passes
  11 decrypt: plaintext refused
  12 decompress: encodings gzip zstd, bytes 262144, ratio 50
routes";
    assert!(text.starts_with(head), "{text}");

    // And they are the stacks that they say: the one reads what the other has written.
    let message = queue.receiver().receive().await.unwrap().message;
    assert_eq!((message.body().size(), message.application().len()), (0, 5));
    assert_eq!(receiving.into_service().oneshot(message).await.unwrap(), Disposition::Complete);
}

#[test]
fn j_46_01_nothing_is_changed_before_it_is_encoded() {
    stands(
        Pipeline::sending,
        compress(),
        EncodeLayer::new(Codecs::json()),
        "put `compress` inside of `encode`, or else there are no bytes yet",
    );
    stands(
        Pipeline::sending,
        sign(),
        EncodeLayer::new(Codecs::json()),
        "put `sign` inside of `encode`, or else there are no bytes yet",
    );
    stands(
        Pipeline::sending,
        encrypt(),
        EncodeLayer::new(Codecs::json()),
        "put `encrypt` inside of `encode`, or else there are no bytes yet",
    );
    stands(
        Pipeline::sending,
        check_in(),
        EncodeLayer::new(Codecs::json()),
        "put `check_in` inside of `encode`, or else there are no bytes yet",
    );
}

#[test]
fn j_46_02_what_is_encrypted_is_compressed_before() {
    stands(
        Pipeline::sending,
        encrypt(),
        compress(),
        "put `compress` outside of `encrypt`, or else what is encrypted does not get smaller",
    );
}

#[test]
fn j_46_03_a_signature_is_of_what_is_sent() {
    stands(
        Pipeline::sending,
        sign(),
        compress(),
        "put `compress` outside of `sign`, or else the signature is of another body than the one that is sent",
    );
    stands(
        Pipeline::sending,
        sign(),
        encrypt(),
        "put `sign` inside of `encrypt`, or else the signature is of another body than the one that is sent",
    );
}

#[test]
fn j_46_04_the_store_has_what_is_compressed_signed_and_encrypted() {
    stands(
        Pipeline::sending,
        check_in(),
        compress(),
        "put `compress` outside of `check_in`, or else the store has the body as it was",
    );
    stands(
        Pipeline::sending,
        check_in(),
        encrypt(),
        "put `encrypt` outside of `check_in`, or else the store has what is not encrypted",
    );
    stands(Pipeline::sending, check_in(), sign(), "put `sign` outside of `check_in`, or else the body is not signed");
}

#[test]
fn j_46_05_an_id_is_there_before_it_is_bound() {
    stands(
        Pipeline::sending,
        sign(),
        MessageIdLayer::new(),
        "put `message_id` outside of `sign`, or else the message has a random id by then",
    );
    stands(
        Pipeline::sending,
        encrypt(),
        MessageIdLayer::new(),
        "put `message_id` outside of `encrypt`, or else the message has a random id by then",
    );
}

#[test]
fn j_46_06_what_is_limited_is_what_is_sent() {
    stands(
        Pipeline::sending,
        SizeLimitLayer::default(),
        compress(),
        "put `size_limit` inside of `compress`, or else the size that is limited is not that which is sent",
    );
    stands(
        Pipeline::sending,
        SizeLimitLayer::default(),
        sign(),
        "put `size_limit` inside of `sign`, or else the size that is limited is not that which is sent",
    );
    stands(
        Pipeline::sending,
        SizeLimitLayer::default(),
        encrypt(),
        "put `size_limit` inside of `encrypt`, or else the size that is limited is not that which is sent",
    );
    stands(
        Pipeline::sending,
        SizeLimitLayer::default(),
        check_in(),
        "put `size_limit` inside of `check_in`, or else the size that is limited is not that which is sent",
    );
    stands(
        Pipeline::sending,
        InFlightLayer::default(),
        check_in(),
        "put `in_flight` inside of `check_in`, or else a permit is held while a body is stored",
    );
}

#[test]
fn j_47_01_a_later_copy_is_as_it_came() {
    stands(
        Pipeline::receiving,
        check_out(),
        RetryLayer::new(),
        "put `check_out` inside of `retry`, or else the copy that a retry sends has the body, and no claim",
    );
    stands(
        Pipeline::receiving,
        verify(),
        RetryLayer::new(),
        "put `verify` inside of `retry`, or else the copy that a retry sends is not signed",
    );
    stands(
        Pipeline::receiving,
        decrypt(),
        RetryLayer::new(),
        "put `decrypt` inside of `retry`, or else the copy that a retry sends is not encrypted",
    );
    stands(
        Pipeline::receiving,
        decompress(),
        RetryLayer::new(),
        "put `decompress` inside of `retry`, or else the copy that a retry sends is not compressed",
    );
}

#[test]
fn j_47_02_no_body_is_read_for_nothing() {
    stands(
        Pipeline::receiving,
        check_out(),
        ExpiryLayer::new(SystemClock::new()),
        "put `check_out` inside of `expiry`, or else the body of an expired message is read",
    );
    stands(
        Pipeline::receiving,
        check_out(),
        dedup(),
        "put `check_out` inside of `dedup`, or else the body of a duplicate is read",
    );
    stands(
        Pipeline::receiving,
        verify(),
        ExpiryLayer::new(SystemClock::new()),
        "put `verify` inside of `expiry`, or else the body of an expired message is read",
    );
    stands(
        Pipeline::receiving,
        verify(),
        dedup(),
        "put `verify` inside of `dedup`, or else the body of a duplicate is read",
    );
    stands(
        Pipeline::receiving,
        decrypt(),
        ExpiryLayer::new(SystemClock::new()),
        "put `decrypt` inside of `expiry`, or else the body of an expired message is read",
    );
    stands(
        Pipeline::receiving,
        decrypt(),
        dedup(),
        "put `decrypt` inside of `dedup`, or else the body of a duplicate is read",
    );
    stands(
        Pipeline::receiving,
        decompress(),
        ExpiryLayer::new(SystemClock::new()),
        "put `decompress` inside of `expiry`, or else the body of an expired message is read",
    );
    stands(
        Pipeline::receiving,
        decompress(),
        dedup(),
        "put `decompress` inside of `dedup`, or else the body of a duplicate is read",
    );
}

#[test]
fn j_47_03_a_claim_is_redeemed_first() {
    stands(
        Pipeline::receiving,
        verify(),
        check_out(),
        "put `verify` inside of `check_out`, or else there is no body to verify",
    );
    stands(
        Pipeline::receiving,
        decrypt(),
        check_out(),
        "put `decrypt` inside of `check_out`, or else there is no body to decrypt",
    );
    stands(
        Pipeline::receiving,
        decompress(),
        check_out(),
        "put `decompress` inside of `check_out`, or else there is no body to decompress",
    );
    stands(
        Pipeline::receiving,
        check_out(),
        renewal(),
        "put `check_out` inside of `lock_renewal`, or else the lock runs out while a body is fetched",
    );
}

#[test]
fn j_47_04_a_signature_is_of_what_has_come() {
    stands(
        Pipeline::receiving,
        decrypt(),
        verify(),
        "put `verify` outside of `decrypt`, or else the signature is of another body than the one that is verified",
    );
    stands(
        Pipeline::receiving,
        decompress(),
        verify(),
        "put `decompress` inside of `verify`, or else the signature is of another body than the one that is verified",
    );
}

#[test]
fn j_47_05_what_is_decompressed_is_decrypted_before() {
    stands(
        Pipeline::receiving,
        decompress(),
        decrypt(),
        "put `decompress` inside of `decrypt`, or else what it gets is encrypted",
    );
}

#[test]
fn j_47_06_dead_letters_are_cut_outside_of_what_makes_them() {
    stands(
        Pipeline::receiving,
        check_out(),
        DeadLetterLayer::new(),
        "put `dead_letter` outside of `check_out`, or else errors of what is outside do not pass through it",
    );
    stands(
        Pipeline::receiving,
        verify(),
        DeadLetterLayer::new(),
        "put `dead_letter` outside of `verify`, or else errors of what is outside do not pass through it",
    );
    stands(
        Pipeline::receiving,
        decrypt(),
        DeadLetterLayer::new(),
        "put `dead_letter` outside of `decrypt`, or else errors of what is outside do not pass through it",
    );
    stands(
        Pipeline::receiving,
        decompress(),
        DeadLetterLayer::new(),
        "put `dead_letter` outside of `decompress`, or else errors of what is outside do not pass through it",
    );
}

#[test]
fn j_49_01_a_span_is_around_whatever_answers() {
    stands(
        Pipeline::receiving,
        DeadLetterLayer::new(),
        TraceLayer::receiving("q"),
        "put `trace` outside of `dead_letter`, or else what that answers is in no span",
    );
    stands(
        Pipeline::receiving,
        CatchPanicLayer::new(),
        TraceLayer::receiving("q"),
        "put `trace` outside of `catch_panic`, or else what that answers is in no span",
    );
    stands(
        Pipeline::receiving,
        renewal(),
        TraceLayer::receiving("q"),
        "put `trace` outside of `lock_renewal`, or else what that answers is in no span",
    );
    stands(
        Pipeline::receiving,
        ExpiryLayer::new(SystemClock::new()),
        TraceLayer::receiving("q"),
        "put `trace` outside of `expiry`, or else what that answers is in no span",
    );
    stands(
        Pipeline::receiving,
        dedup(),
        TraceLayer::receiving("q"),
        "put `trace` outside of `dedup`, or else what that answers is in no span",
    );
    stands(
        Pipeline::receiving,
        check_out(),
        TraceLayer::receiving("q"),
        "put `trace` outside of `check_out`, or else what that answers is in no span",
    );
    stands(
        Pipeline::receiving,
        verify(),
        TraceLayer::receiving("q"),
        "put `trace` outside of `verify`, or else what that answers is in no span",
    );
    stands(
        Pipeline::receiving,
        decrypt(),
        TraceLayer::receiving("q"),
        "put `trace` outside of `decrypt`, or else what that answers is in no span",
    );
    stands(
        Pipeline::receiving,
        decompress(),
        TraceLayer::receiving("q"),
        "put `trace` outside of `decompress`, or else what that answers is in no span",
    );
}

#[test]
fn j_49_02_a_span_is_around_whatever_refuses() {
    stands(
        Pipeline::sending,
        EncodeLayer::new(Codecs::json()),
        TraceLayer::sending("q"),
        "put `trace` outside of `encode`, or else what that refuses is in no span",
    );
    stands(
        Pipeline::sending,
        sign(),
        TraceLayer::sending("q"),
        "put `trace` outside of `sign`, or else what that refuses is in no span",
    );
    stands(
        Pipeline::sending,
        encrypt(),
        TraceLayer::sending("q"),
        "put `trace` outside of `encrypt`, or else what that refuses is in no span",
    );
    stands(
        Pipeline::sending,
        check_in(),
        TraceLayer::sending("q"),
        "put `trace` outside of `check_in`, or else what that refuses is in no span",
    );
    stands(
        Pipeline::sending,
        SizeLimitLayer::default(),
        TraceLayer::sending("q"),
        "put `trace` outside of `size_limit`, or else what that refuses is in no span",
    );
}

#[test]
fn j_49_03_a_message_has_one_span_for_all_its_attempts() {
    let says = "put `trace` outside of `retry`, or else each attempt has a span of its own, and what becomes of the message \
                is in none";
    stands(Pipeline::receiving, RetryLayer::new(), TraceLayer::receiving("q"), says);
    let tower_retry = LayerInfo::new("retry");
    stands(Pipeline::sending, Named(tower_retry), TraceLayer::sending("q"), says);
}

/// Of tower, say.
struct Named(LayerInfo);

impl Describe for Named {
    fn info(&self) -> LayerInfo {
        self.0.clone()
    }
}

#[track_caller]
fn refused(pipeline: Pipeline<Stack<Says<impl Describe>, Identity>>, kind: Kind, says: &str) {
    let error = pipeline.service(service!()).map(drop).unwrap_err();
    assert_eq!((error.kind(), error.to_string()), (kind, says.to_owned()));
}

#[test]
fn j_48_01_none_stands_twice() {
    macro_rules! twice {
        ($($pipeline:expr, $layer:expr, $name:literal;)*) => {$(
            let built = $pipeline("q").layer(Says($layer)).layer(Says($layer)).service(service!());
            let error = built.map(drop).unwrap_err();
            let says = concat!("`", $name, "` stands twice: leave one of them");
            assert_eq!((error.kind(), &*error.to_string()), (Kind::DuplicateLayer, says));
        )*};
    }
    twice! {
        Pipeline::sending, compress(), "compress";
        Pipeline::sending, sign(), "sign";
        Pipeline::sending, encrypt(), "encrypt";
        Pipeline::sending, check_in(), "check_in";
        Pipeline::sending, TraceLayer::sending("q"), "trace";
        Pipeline::receiving, check_out(), "check_out";
        Pipeline::receiving, verify(), "verify";
        Pipeline::receiving, decrypt(), "decrypt";
        Pipeline::receiving, decompress(), "decompress";
        Pipeline::receiving, TraceLayer::receiving("q"), "trace";
    }
}

#[test]
fn j_48_02_each_is_of_one_side() {
    macro_rules! wrong_side {
        ($($pipeline:expr, $layer:expr;)*) => {$(
            let error = $pipeline("q").layer(Says($layer)).service(service!()).map(drop).unwrap_err();
            assert_eq!(error.kind(), Kind::WrongSide, "{error}");
        )*};
    }
    wrong_side! {
        Pipeline::receiving, compress();
        Pipeline::receiving, sign();
        Pipeline::receiving, encrypt();
        Pipeline::receiving, check_in();
        Pipeline::receiving, TraceLayer::sending("q");
        Pipeline::sending, check_out();
        Pipeline::sending, verify();
        Pipeline::sending, decrypt();
        Pipeline::sending, decompress();
        Pipeline::sending, TraceLayer::receiving("q");
    }
}

#[test]
fn j_48_03_limits_that_nothing_passes() {
    let one = |layer| Pipeline::receiving("q").layer(Says(layer));
    let says = "`decompress` reads no encoding, so that no compressed message passes: name one";
    refused(one(DecompressLayer::new([])), Kind::LayerSetting, says);
    refused(
        one(decompress().max_bytes(0)),
        Kind::LayerSetting,
        "`decompress` lets no byte pass: set `max_bytes` above 0",
    );
    let says = "`check_out` fetches no byte, so that no message with a claim passes: set `max_bytes` above 0";
    let none = Pipeline::receiving("q").layer(Says(check_out().max_bytes(0)));
    refused(none, Kind::LayerSetting, says);
}

#[test]
fn j_48_04_nothing_to_encrypt_or_to_sign_by() {
    // Answers by an id alone.
    let by_id = |id: Option<&str>| id.map(|_| key("2026"));
    let says = "`encrypt` has no newest key, and so nothing is sent: let its provider answer without an id";
    refused(Pipeline::sending("q").layer(Says(EncryptLayer::new(by_id))), Kind::LayerSetting, says);
    let says = "`sign` has no newest key, and so nothing is sent: let its provider answer without an id";
    refused(Pipeline::sending("q").layer(Says(SignLayer::new(by_id))), Kind::LayerSetting, says);
    // Who receives needs none.
    for built in [
        Pipeline::receiving("q").layer(Says(DecryptLayer::new(by_id))).service(service!()).map(drop),
        Pipeline::receiving("q").layer(Says(VerifyLayer::new(by_id))).service(service!()).map(drop),
    ] {
        built.unwrap();
    }
}

#[test]
fn j_48_05_a_newest_key_that_its_id_does_not_find() {
    let newest_alone = |id: Option<&str>| id.is_none().then(|| key("2026"));
    let another = |id: Option<&str>| Some(key(if id.is_none() { "2026" } else { "2025" }));
    let says = "`decrypt` does not find its newest key by the id `2026`, which messages name: let its provider do";
    refused(Pipeline::receiving("q").layer(Says(DecryptLayer::new(newest_alone))), Kind::LayerSetting, says);
    refused(Pipeline::receiving("q").layer(Says(DecryptLayer::new(another))), Kind::LayerSetting, says);
    let says = "`verify` does not find its newest key by the id `2026`, which messages name: let its provider do";
    refused(Pipeline::receiving("q").layer(Says(VerifyLayer::new(newest_alone))), Kind::LayerSetting, says);
    // Who sends asks for no other.
    Pipeline::sending("q").layer(Says(EncryptLayer::new(newest_alone))).service(service!()).unwrap();
}
