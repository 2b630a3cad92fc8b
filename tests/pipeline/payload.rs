//! The layers that change bodies, in a pipeline.

use consign::{
    BuildError, BuildErrorKind as Kind, Disposition,
    administration::QueueSettings,
    broker::Broker,
    codecs::Codecs,
    message_types::MessageTypes,
    middleware::{
        catch_panic::CatchPanicLayer,
        circuit_breaker::CircuitBreakerLayer,
        claim_check::{ResolveClaimLayer, StoreClaimLayer},
        content_encoding::{CompressLayer, DecompressLayer, Encoding},
        dead_letter::DeadLetterLayer,
        encode::{EncodeLayer, OutboundMessage},
        encryption::{DecryptLayer, EncryptLayer},
        expiry::ExpiryLayer,
        in_flight::InFlightLayer,
        message_id::MessageIdLayer,
        retry::RetryLayer,
        signing::{SignLayer, VerifyLayer},
        size_limit::SizeLimitLayer,
        trace::TraceLayer,
    },
    pipeline::{Describe, Pipeline},
    routing::{Body, Router},
    time::SystemClock,
    transport::{ReceiverExt, SendExt, SendService},
};
use tower::{
    ServiceExt,
    layer::util::{Identity, Stack},
};

use crate::layers::{
    MINUTE, Says, blobs, check_in, check_out, compress, decompress, decrypt, dedup, encrypt, key, renewal, service,
    sign, to_encrypt, to_sign, verify,
};

/// Rules: J-46.
#[tokio::test]
async fn a_full_stack_says_what_it_is_made_of() {
    let (queue, blobs) = (Broker::new().create_queue("orders", QueueSettings::default()).unwrap(), blobs());
    let sending = Pipeline::sending("to orders")
        .layer(TraceLayer::sending("orders"))
        .layer(MessageIdLayer::new())
        .layer(EncodeLayer::new(Codecs::json()))
        .layer(CompressLayer::new(Encoding::Zstd))
        .layer(EncryptLayer::new(to_encrypt()))
        .layer(SignLayer::new(to_sign()))
        .layer(StoreClaimLayer::new(blobs.clone()).threshold(64))
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
  4 compress: encoding zstd, level 3, threshold 1024
  5 encrypt
  6 sign
  7 check_in: threshold 64
  8 size_limit: bytes 1000
  9 in_flight: limit 100
codecs";
    assert!(text.starts_with(head), "{text}");
    let order = vec!["a line that comes again and again".to_owned(); 100];
    sending.into_service().send(OutboundMessage::new(order)).await.unwrap();

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
        .layer(ResolveClaimLayer::new(blobs).max_bytes(1 << 20))
        .layer(VerifyLayer::new(to_sign()).allow_unsigned())
        .layer(DecryptLayer::new(to_encrypt()))
        .layer(decompress().max_ratio(200))
        .router(Router::new(Codecs::json()).fallback(read).build().unwrap())
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
  12 decompress: encodings gzip zstd, bytes 262144, ratio 200
routes";
    assert!(text.starts_with(head), "{text}");

    // And they are the stacks that they say: the one reads what the other has written.
    let message = queue.receiver().receive().await.unwrap().message;
    assert_eq!((message.body().size(), message.application_properties().len()), (0, 5));
    assert_eq!(receiving.into_service().oneshot(message).await.unwrap(), Disposition::Complete);
}

#[track_caller]
fn refused(pipeline: Pipeline<Stack<Says<impl Describe>, Identity>>, kind: Kind, says: &str) {
    let error = pipeline.service(service!()).map(drop).unwrap_err();
    assert_eq!((error.kind(), error.to_string()), (kind, says.to_owned()));
}

/// Rules: J-48.
#[test]
fn none_stands_twice() {
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

/// Rules: J-48.
#[test]
fn each_is_of_one_side() {
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

/// Rules: J-48.
#[test]
fn limits_that_nothing_passes() {
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

/// Rules: J-48.
#[test]
fn nothing_to_encrypt_or_to_sign_by() {
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

/// Rules: J-48.
#[test]
fn a_newest_key_that_its_id_does_not_find() {
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

/// Rules: H-158.
#[test]
fn a_property_that_says_the_type_is_covered() {
    #[derive(MessageTypes)]
    #[message(property = "kind", version_property = "v")]
    enum Event {
        #[message("order.created", version = 2, from(1 = u8))]
        Created(u16),
    }
    async fn handle(_: Event) {}

    let router = || Router::new(Codecs::json()).types(handle).build().unwrap();
    let not_bound = |built: Result<(), BuildError>, says: &str| {
        let error = built.unwrap_err();
        assert_eq!((error.kind(), &*error.to_string()), (Kind::NotBound, says));
    };
    let missing = |layer: &str, property: &str, call: &str| {
        format!(
            "`{layer}` does not cover the property `{property}`, which says how a `Event` is read: \
             add `.{call}(\"{property}\")`"
        )
    };
    let receiving =
        |verify, decrypt| Pipeline::receiving("q").layer(Says(verify)).layer(Says(decrypt)).router(router()).map(drop);
    not_bound(receiving(verify(), decrypt()), &missing("verify", "kind", "require_bound"));
    let verify = || verify().require_bound("v").require_bound("kind");
    not_bound(receiving(verify(), decrypt().require_bound("kind")), &missing("decrypt", "v", "require_bound"));
    receiving(verify(), decrypt().require_bound("kind").require_bound("v")).unwrap();

    let sending = |encrypt, sign| {
        let pipeline = Pipeline::sending("q").sends::<Event>().layer(EncodeLayer::new(Codecs::json()));
        pipeline.layer(Says(encrypt)).layer(Says(sign)).service(service!()).map(drop)
    };
    not_bound(sending(encrypt().bind("v"), sign()), &missing("encrypt", "kind", "bind"));
    let encrypt = || encrypt().bind("kind").bind("v");
    not_bound(sending(encrypt(), sign().bind("kind")), &missing("sign", "v", "bind"));
    sending(encrypt(), sign().bind("kind").bind("v")).unwrap();
    // The default places are covered.
    let sending = Pipeline::sending("q").sends::<crate::Event>().layer(EncodeLayer::new(crate::codecs()));
    sending.layer(Says(sign())).service(service!()).unwrap();
}
