//! Configurations that are wrong, each with one error of one kind that says what to change. What is wrong with tables of types
//! and with routes alone is in `tests/message_types/wrong.rs`.

use std::time::Duration;

use consign::{
    BuildError, BuildErrorKind as Kind, Disposition, Message,
    administration::QueueSettings,
    broker::Broker,
    codecs::{
        Bincode, Codec, Codecs, ConfigError, ConfigErrorKind, DecodeContext, DecodeError, EncodeError, Format, Json,
        MediaType, Policy,
    },
    consumer::{Consumer, Settings},
    middleware::{
        catch_panic::CatchPanicLayer,
        dead_letter::DeadLetterLayer,
        dedup::{DedupLayer, MemoryStore},
        encode::EncodeLayer,
        lock_renewal::LockRenewalLayer,
        message_id::MessageIdLayer,
        renewal::Renewal,
        retry::RetryLayer,
        size_limit::SizeLimitLayer,
    },
    pipeline::Pipeline,
    routing::{Ignore, Router},
    transport::SettleError,
};
use serde::Serialize;
use tower::{BoxError, layer::util::Identity, service_fn};

use crate::{Event, codecs};

macro_rules! handler {
    () => {
        service_fn(async |_: Message| Ok::<_, BoxError>(Disposition::Complete))
    };
}

macro_rules! sender {
    () => {
        service_fn(async |_: Message| Ok::<_, BoxError>(()))
    };
}

fn dedup() -> DedupLayer<MemoryStore> {
    DedupLayer::new(MemoryStore::new(Duration::from_secs(600)), "orders")
}

#[track_caller]
fn refused<S>(built: Result<S, BuildError>, kind: Kind, says: &str) {
    let error = built.map(drop).unwrap_err();
    assert_eq!((error.kind(), error.to_string()), (kind, says.to_owned()));
}

#[track_caller]
fn no_set<S>(built: Result<Codecs<S>, ConfigError>, kind: ConfigErrorKind, says: &str) {
    let error = built.map(drop).unwrap_err();
    assert_eq!((error.kind(), error.to_string()), (kind, says.to_owned()));
}

/// Reads what JSON reads too.
struct OtherJson;

impl Codec for OtherJson {
    fn name(&self) -> &'static str {
        "other"
    }

    fn media_types(&self) -> &'static [MediaType] {
        const { &[MediaType::exact("application/json")] }
    }

    fn format(&self) -> Format {
        Format::SelfDescribing
    }

    fn decode<'de, T: serde::Deserialize<'de>>(&self, _: &'de [u8], _: &DecodeContext<'_>) -> Result<T, DecodeError> {
        unimplemented!("it is in no set")
    }

    fn encode<T: Serialize + ?Sized>(&self, _: &T, _: &mut bytes::BytesMut) -> Result<(), EncodeError> {
        unimplemented!("it is in no set")
    }
}

/// Rules: J-45.
#[test]
fn two_codecs_for_one_media_type() {
    let says = "`json` and `other` both read `application/json`: leave it to one of them";
    no_set(Codecs::builder().with(Json::default()).with(OtherJson).build(), ConfigErrorKind::DuplicateMediaType, says);
}

/// Rules: J-45.
#[test]
fn a_chain_that_is_never_reached() {
    let codecs = Codecs::builder()
        .with(Json::default())
        .fallback(["json"])
        .on_missing(Policy::Reject)
        .on_unknown(Policy::Reject)
        .on_malformed(Policy::Reject)
        .on_failed(Policy::Reject);
    let says = "no policy uses the chain, so it is never reached: set one to `Policy::Chain`, or drop `fallback`";
    no_set(codecs.build(), ConfigErrorKind::ChainUnreachable, says);
}

/// Rules: J-45.
#[test]
fn a_positional_codec_in_a_chain() {
    let codecs = Codecs::builder().with(Json::default()).with(Bincode::fixint()).fallback(["json", "bincode"]).build();
    assert_eq!(codecs.map(drop).unwrap_err().kind(), ConfigErrorKind::PositionalNotAllowed);
}

/// Rules: J-45.
#[test]
fn duplicate_detection_outside_of_a_retry() {
    let built = Pipeline::receiving("q").layer(dedup()).layer(RetryLayer::new()).service(handler!());
    let says = "put `dedup` inside of `retry`, or else the copy of a delayed retry counts as a duplicate, and is lost";
    refused(built, Kind::LayerOrder, says);
    Pipeline::receiving("q").layer(RetryLayer::new()).layer(dedup()).service(handler!()).unwrap();
}

/// Rules: J-45.
#[test]
fn dead_lettering_inside_of_what_fails() {
    let built =
        Pipeline::receiving("q").layer(CatchPanicLayer::new()).layer(DeadLetterLayer::new()).service(handler!());
    let says = "put `dead_letter` outside of `catch_panic`, or else it does not get the errors of outer layers";
    refused(built, Kind::LayerOrder, says);
}

/// Rules: J-45.
#[test]
fn a_size_that_is_limited_before_it_is_known() {
    let built = Pipeline::sending("q").layer(SizeLimitLayer::default()).layer(EncodeLayer::new(codecs()));
    let says = "put `encode` outside of `size_limit`, or else the size is not known";
    refused(built.service(sender!()), Kind::LayerOrder, says);
}

/// Rules: J-45.
#[test]
fn a_layer_twice() {
    let built =
        Pipeline::receiving("q").layer(dedup()).layer(CatchPanicLayer::new()).layer(dedup()).service(handler!());
    refused(built, Kind::DuplicateLayer, "`dedup` stands twice: leave one of them");
}

/// Rules: J-45.
#[test]
fn a_layer_of_the_other_side() {
    let built = Pipeline::receiving("q").layer(MessageIdLayer::new()).service(handler!());
    refused(built, Kind::WrongSide, "`message_id` is for a sending stack, and `q` is receiving: move it there");
    let built = Pipeline::sending("q").layer(dedup()).service(sender!());
    refused(built, Kind::WrongSide, "`dedup` is for a receiving stack, and `q` is sending: move it there");
    let router = Router::new(codecs()).fallback(Ignore).build().unwrap();
    refused(
        Pipeline::sending("q").router(router),
        Kind::WrongSide,
        "`router` is for a receiving stack, and `q` is sending: move it there",
    );
    let built = Pipeline::receiving("q").sends::<Event>().service(handler!());
    refused(built, Kind::WrongSide, "`Event` is for a sending stack, and `q` is receiving: move it there");
    let built = Pipeline::sending("q").consumer(&Settings::new()).service(sender!());
    refused(built, Kind::WrongSide, "`consumer` is for a receiving stack, and `q` is sending: move it there");
}

/// Rules: J-45.
#[test]
fn a_renewal_that_is_longer_than_the_lock() {
    let renewal = |every| {
        let policy = Renewal::new(Duration::from_secs(60)).every(Duration::from_secs(every));
        let renew = LockRenewalLayer::new(|_: &Message| async { Ok::<_, SettleError>(()) }, policy);
        Pipeline::receiving("q").layer(renew).service(handler!()).map(drop)
    };
    let says = "`lock_renewal` renews every 90s a lock of 60s, which is lost by then: renew sooner";
    refused(renewal(90), Kind::LayerSetting, says);
    assert!(renewal(60).is_err());
    renewal(59).unwrap();
}

/// Rules: J-45.
#[test]
fn a_limit_that_nothing_passes() {
    let built = Pipeline::sending("q").layer(SizeLimitLayer::new(0)).service(sender!());
    let says = "`size_limit` lets no byte pass, and every message has some: set a limit above 0";
    refused(built, Kind::LayerSetting, says);
}

#[track_caller]
fn no_settings(settings: &Settings, kind: Kind, says: &str) {
    let built = Pipeline::receiving("q").consumer(settings).service(handler!());
    refused(built, kind, says);
    let queue = Broker::new().create_queue("q", QueueSettings::default()).unwrap();
    let error = Consumer::configured(queue.receiver(), handler!(), settings).map(drop).unwrap_err();
    assert_eq!((error.kind(), error.to_string()), (kind, says.to_owned()));
}

/// Rules: J-45.
#[test]
fn a_consumer_that_handles_nothing() {
    let says = "the consumer handles 0 messages at once: set at least 1";
    no_settings(&Settings::new().concurrency(0), Kind::NoConcurrency, says);
}

/// Rules: J-45.
#[test]
fn a_consumer_that_handles_too_much() {
    let says = "the consumer handles 4097 messages at once: set at most 4096, and run several";
    no_settings(&Settings::new().concurrency(4_097), Kind::TooMuchConcurrency, says);
    let says = "the consumer locks 4097 messages ahead: set at most 4096";
    no_settings(&Settings::new().prefetch(4_097), Kind::TooMuchPrefetch, says);
    Settings::new().concurrency(4_096).prefetch(4_096).check().unwrap();
}

/// Rules: J-45.
#[test]
fn a_renewal_that_never_comes() {
    let settings = |renew| Settings::new().lock(Duration::from_secs(60)).renew_for(Duration::from_secs(renew));
    let says = "the consumer renews for 29s a lock of 60s, whose first renewal is due after 30s: renew for longer, or not at all";
    no_settings(&settings(29), Kind::RenewalTooShort, says);
    settings(30).check().unwrap();
    settings(0).check().unwrap();
}

/// Rules: J-45.
#[test]
fn types_that_no_codec_encodes() {
    let built = Pipeline::sending("q").sends::<Event>().service(sender!());
    refused(built, Kind::NoEncode, "`Event` is sent, and no layer encodes it: add `encode`");
}

/// Rules: J-45.
#[test]
fn types_whose_codec_is_not_there() {
    let built = Pipeline::sending("q").sends::<Event>().layer(EncodeLayer::new(Codecs::json())).service(sender!());
    let says = "`order.shipped` is written by `msgpack`, which is not a codec of the set: add it";
    refused(built, Kind::UnknownCodec, says);
}

/// Rules: J-45.
#[test]
fn a_layer_that_is_named_by_hand_counts_for_the_order() {
    let built = Pipeline::receiving("q").layer(dedup()).other("retry", Identity::new()).service(handler!());
    assert_eq!(built.map(drop).unwrap_err().kind(), Kind::LayerOrder);
}
