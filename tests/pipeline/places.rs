//! Where layers stand to each other: in one order a pipeline is built, in the other one it is not, and the error says why.

use consign::{
    BuildErrorKind as Kind,
    administration::QueueSettings,
    broker::Broker,
    codecs::Codecs,
    middleware::{
        busy_pause::BusyPauseLayer,
        catch_panic::CatchPanicLayer,
        circuit_breaker::CircuitBreakerLayer,
        dead_letter::DeadLetterLayer,
        delivery_limit::DeliveryLimitLayer,
        encode::EncodeLayer,
        expiry::ExpiryLayer,
        in_flight::InFlightLayer,
        interop::{MassTransitLayer, NServiceBusLayer},
        message_id::MessageIdLayer,
        partition::PartitionLayer,
        retry::{Backoff, DelayPolicy, RetryLayer},
        send_retry::SendRetryLayer,
        size_limit::SizeLimitLayer,
        spawn::SpawnLayer,
        trace::TraceLayer,
    },
    pipeline::{Describe, LayerInfo, Pipeline},
    time::SystemClock,
};
use tower::layer::util::Identity;

use crate::layers::{
    MINUTE, Says, check_in, check_out, compress, decompress, decrypt, dedup, encrypt, renewal, service, sign, verify,
};

/// The layer stands so to the other one, or else.
#[track_caller]
fn stands(
    pipeline: fn(&'static str) -> Pipeline<Identity>,
    (layer, place, other): (impl Describe, &str, impl Describe),
    why: &str,
) {
    let says = format!("put `{}` {place} of `{}`, or else {why}", layer.info().name(), other.info().name());
    let [inside, outside] = [
        pipeline("q").layer(Says(&other)).layer(Says(&layer)).service(service!()).map(drop),
        pipeline("q").layer(Says(&layer)).layer(Says(&other)).service(service!()).map(drop),
    ];
    let (right, wrong) = if place == "inside" { (inside, outside) } else { (outside, inside) };
    right.unwrap();
    let wrong = wrong.unwrap_err();
    assert_eq!((wrong.kind(), wrong.to_string()), (Kind::LayerOrder, says));
}

macro_rules! orders {
    ($($side:ident: $layer:expr, $place:ident, $other:expr, $why:expr;)*) => {
        $(stands(Pipeline::$side, ($layer, stringify!($place), $other), $why);)*
    };
}

/// Of tower, say.
struct Named(LayerInfo);

impl Describe for Named {
    fn info(&self) -> LayerInfo {
        self.0.clone()
    }
}

/// Rules: J-46.
#[test]
fn nothing_is_changed_before_it_is_encoded() {
    orders! {
        sending: compress(), inside, EncodeLayer::new(Codecs::json()), "there are no bytes yet";
        sending: sign(), inside, EncodeLayer::new(Codecs::json()), "there are no bytes yet";
        sending: encrypt(), inside, EncodeLayer::new(Codecs::json()), "there are no bytes yet";
        sending: check_in(), inside, EncodeLayer::new(Codecs::json()), "there are no bytes yet";
    }
}

/// Rules: W-251, J-252.
#[test]
fn a_message_that_waits_for_its_key_keeps_its_lock_and_a_task_its_id() {
    let (partition, spawn) = (PartitionLayer::by_partition_key, SpawnLayer::new());
    let twice = "a message whose handler computes when its call is dropped may be handled twice";
    orders! {
        receiving: partition(), inside, ExpiryLayer::new(SystemClock::new()), "a lock that was renewed while the message waited counts as lost";
        receiving: partition(), inside, renewal(), "the lock of a message that waits is not renewed";
        receiving: spawn, outside, dedup(), twice;
        receiving: spawn, inside, partition(), "messages of one key start in any order";
    }
}

/// Rules: Y-32.
#[tokio::test]
async fn a_circuit_breaker_is_outside_of_layers_that_are_always_ready() {
    let broken = || CircuitBreakerLayer::new(1, 1, MINUTE);
    let ready = "that layer is always ready, and the consumer receives while the circuit is open";
    let queue = Broker::new().create_queue("q", QueueSettings::default()).unwrap();
    let delayed = DelayPolicy::new(queue.sender().unwrap(), Backoff::fixed(MINUTE)).unwrap();
    orders! {
        receiving: broken(), outside, PartitionLayer::by_partition_key(), ready;
        receiving: broken(), outside, dedup(), ready;
        receiving: RetryLayer::new().delayed(delayed), outside, broken(), "a failure with a delayed retry counts as a success";
    }
    let (retry, partition) = (RetryLayer::new().immediate(2), PartitionLayer::by_partition_key());
    let pipeline = Pipeline::receiving("q").layer(Says(broken())).layer(Says(partition)).layer(Says(retry));
    pipeline.layer(Says(dedup())).service(service!()).map(drop).unwrap();
}

fn send_retry() -> SendRetryLayer {
    SendRetryLayer::new(Backoff::fixed(std::time::Duration::from_secs(1)))
}

/// Rules: J-46.
#[test]
fn a_sending_retry_repeats_one_message_and_holds_no_permit_meanwhile() {
    orders! {
        sending: send_retry(), inside, MessageIdLayer::new(), "every attempt is a new message";
        sending: send_retry(), inside, TraceLayer::sending("q"), "each attempt has a span, and no span has the final result";
        sending: send_retry(), outside, InFlightLayer::new(1), "a permit is held while no send is in flight";
        sending: send_retry(), outside, BusyPauseLayer::new(), "a pause ends an attempt";
    }
    let once = Pipeline::sending("q").layer(send_retry().attempts(1)).service(service!()).map(drop).unwrap_err();
    assert_eq!(once.kind(), Kind::LayerSetting);
    let described = Pipeline::sending("q").layer(send_retry().repeat_unknown_outcome()).service(service!()).unwrap();
    let described = described.describe().to_string();
    assert!(described.contains("send_retry: attempts 4, backoff 1s, unknown outcome repeated"), "{described}");
}

/// Rules: J-46.
#[test]
fn deliveries_are_limited_outside_of_what_fails() {
    let why = "it does not get the errors of outer layers";
    orders! {
        receiving: DeliveryLimitLayer::new(5), outside, CatchPanicLayer::new(), why;
        receiving: DeliveryLimitLayer::new(5), outside, RetryLayer::new(), why;
        receiving: DeliveryLimitLayer::new(5), inside, DeadLetterLayer::new(), "its dead letters are not made to fit";
    }
}

/// Rules: J-46.
#[test]
fn compression_is_before_encryption() {
    orders! {
        sending: compress(), outside, encrypt(), "what is encrypted does not get smaller";
    }
}

/// Rules: J-46.
#[test]
fn a_signature_is_of_what_is_sent() {
    orders! {
        sending: compress(), outside, sign(), "the signature is of another body than the one that is sent";
        sending: sign(), inside, encrypt(), "the signature is of another body than the one that is sent";
    }
}

/// Rules: J-46.
#[test]
fn the_store_has_what_is_compressed_signed_and_encrypted() {
    orders! {
        sending: compress(), outside, check_in(), "the store has the body as it was";
        sending: encrypt(), outside, check_in(), "the store has what is not encrypted";
        sending: sign(), outside, check_in(), "the body is not signed";
    }
}

/// Rules: J-46.
#[test]
fn an_id_is_there_before_it_is_bound() {
    orders! {
        sending: MessageIdLayer::new(), outside, sign(), "the message already has a random MessageId";
        sending: MessageIdLayer::new(), outside, encrypt(), "the message already has a random MessageId";
    }
}

/// Rules: J-46.
#[test]
fn the_size_limit_applies_to_the_sent_message() {
    orders! {
        sending: SizeLimitLayer::default(), inside, compress(), "the limit does not apply to the size that is sent";
        sending: SizeLimitLayer::default(), inside, sign(), "the limit does not apply to the size that is sent";
        sending: SizeLimitLayer::default(), inside, encrypt(), "the limit does not apply to the size that is sent";
        sending: SizeLimitLayer::default(), inside, check_in(), "the limit does not apply to the size that is sent";
        sending: InFlightLayer::default(), inside, check_in(), "a permit is held while a body is stored";
    }
}

/// Rules: J-47.
#[test]
fn a_later_copy_is_as_it_came() {
    orders! {
        receiving: check_out(), inside, RetryLayer::new(), "the copy that a retry sends has the body, and no claim";
        receiving: verify(), inside, RetryLayer::new(), "the copy that a retry sends is not signed";
        receiving: decrypt(), inside, RetryLayer::new(), "the copy that a retry sends is not encrypted";
        receiving: decompress(), inside, RetryLayer::new(), "the copy that a retry sends is not compressed";
    }
}

/// Rules: J-47.
#[test]
fn no_body_is_read_for_nothing() {
    orders! {
        receiving: check_out(), inside, ExpiryLayer::new(SystemClock::new()), "the body of an expired message is read";
        receiving: check_out(), inside, dedup(), "the body of a duplicate is read";
        receiving: verify(), inside, ExpiryLayer::new(SystemClock::new()), "the body of an expired message is read";
        receiving: verify(), inside, dedup(), "the body of a duplicate is read";
        receiving: decrypt(), inside, ExpiryLayer::new(SystemClock::new()), "the body of an expired message is read";
        receiving: decrypt(), inside, dedup(), "the body of a duplicate is read";
        receiving: decompress(), inside, ExpiryLayer::new(SystemClock::new()), "the body of an expired message is read";
        receiving: decompress(), inside, dedup(), "the body of a duplicate is read";
    }
}

/// Rules: J-47.
#[test]
fn a_claim_is_redeemed_first() {
    orders! {
        receiving: verify(), inside, check_out(), "there is no body to verify";
        receiving: decrypt(), inside, check_out(), "there is no body to decrypt";
        receiving: decompress(), inside, check_out(), "there is no body to decompress";
        receiving: check_out(), inside, renewal(), "the lock runs out while a body is fetched";
    }
}

/// Rules: J-47.
#[test]
fn a_signature_is_of_what_has_come() {
    orders! {
        receiving: verify(), outside, decrypt(), "the signature is of another body than the one that is verified";
        receiving: decompress(), inside, verify(), "the signature is of another body than the one that is verified";
    }
}

/// Rules: J-47.
#[test]
fn decryption_is_before_decompression() {
    orders! {
        receiving: decompress(), inside, decrypt(), "what it gets is encrypted";
    }
}

/// Rules: J-47.
#[test]
fn an_envelope_is_opened_last() {
    orders! {
        receiving: MassTransitLayer::new(), inside, check_out(), "there is no body to read";
        receiving: MassTransitLayer::new(), inside, verify(), "the signature is of another message than the one that is verified";
        receiving: MassTransitLayer::new(), inside, decrypt(), "what it gets is encrypted";
        receiving: NServiceBusLayer::new(), inside, decompress(), "what it gets is compressed";
        receiving: DeadLetterLayer::new(), outside, NServiceBusLayer::new(), "it does not get the errors of outer layers";
        receiving: TraceLayer::receiving("q"), outside, MassTransitLayer::new(), "messages that it settles have no span";
    }
}

/// Rules: J-47.
#[test]
fn dead_letters_are_cut_outside_of_what_makes_them() {
    orders! {
        receiving: DeadLetterLayer::new(), outside, check_out(), "it does not get the errors of outer layers";
        receiving: DeadLetterLayer::new(), outside, verify(), "it does not get the errors of outer layers";
        receiving: DeadLetterLayer::new(), outside, decrypt(), "it does not get the errors of outer layers";
        receiving: DeadLetterLayer::new(), outside, decompress(), "it does not get the errors of outer layers";
    }
}

/// Rules: J-49.
#[test]
fn a_span_is_around_whatever_answers() {
    orders! {
        receiving: TraceLayer::receiving("q"), outside, DeadLetterLayer::new(), "messages that it settles have no span";
        receiving: TraceLayer::receiving("q"), outside, CatchPanicLayer::new(), "messages that it settles have no span";
        receiving: TraceLayer::receiving("q"), outside, renewal(), "messages that it settles have no span";
        receiving: TraceLayer::receiving("q"), outside, ExpiryLayer::new(SystemClock::new()), "messages that it settles have no span";
        receiving: TraceLayer::receiving("q"), outside, dedup(), "messages that it settles have no span";
        receiving: TraceLayer::receiving("q"), outside, check_out(), "messages that it settles have no span";
        receiving: TraceLayer::receiving("q"), outside, verify(), "messages that it settles have no span";
        receiving: TraceLayer::receiving("q"), outside, decrypt(), "messages that it settles have no span";
        receiving: TraceLayer::receiving("q"), outside, decompress(), "messages that it settles have no span";
    }
}

/// Rules: J-49.
#[test]
fn a_span_is_around_whatever_refuses() {
    orders! {
        sending: TraceLayer::sending("q"), outside, EncodeLayer::new(Codecs::json()), "messages that it refuses have no span";
        sending: TraceLayer::sending("q"), outside, sign(), "messages that it refuses have no span";
        sending: TraceLayer::sending("q"), outside, encrypt(), "messages that it refuses have no span";
        sending: TraceLayer::sending("q"), outside, check_in(), "messages that it refuses have no span";
        sending: TraceLayer::sending("q"), outside, SizeLimitLayer::default(), "messages that it refuses have no span";
    }
}

/// Rules: J-49.
#[test]
fn a_message_has_one_span_for_all_its_attempts() {
    let why = "each attempt has a span, and no span has the final result";
    orders! {
        receiving: TraceLayer::receiving("q"), outside, RetryLayer::new(), why;
        sending: TraceLayer::sending("q"), outside, Named(LayerInfo::new("retry")), why;
    }
}
