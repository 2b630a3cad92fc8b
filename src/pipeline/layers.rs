//! The descriptions of the layers of this library. Why is on the page of each, under *Order*.

use consign_codecs::CodecSet;

use super::{Describe, LayerInfo, Side};
use crate::middleware::{
    busy_pause::BusyPauseLayer,
    catch_panic::CatchPanicLayer,
    circuit_breaker::CircuitBreakerLayer,
    dead_letter::DeadLetterLayer,
    dedup::DedupLayer,
    delivery_limit::DeliveryLimitLayer,
    encode::EncodeLayer,
    expiry::ExpiryLayer,
    from_fn::FromFnLayer,
    in_flight::InFlightLayer,
    lock_renewal::LockRenewalLayer,
    message_id::MessageIdLayer,
    retry::{Later, RetryLayer},
    send_retry::SendRetryLayer,
    size_limit::SizeLimitLayer,
};

pub(super) fn receiving(name: &'static str) -> LayerInfo {
    LayerInfo::new(name).only(Side::Receiving)
}

pub(super) fn sending(name: &'static str) -> LayerInfo {
    LayerInfo::new(name).only(Side::Sending)
}

impl<C> Describe for DeadLetterLayer<C> {
    fn info(&self) -> LayerInfo {
        let why = "it does not get the errors of outer layers";
        let payload = ["check_out", "verify", "decrypt", "decompress", "masstransit", "nservicebus"];
        ["catch_panic", "lock_renewal", "expiry", "retry", "circuit_breaker", "dedup"]
            .into_iter()
            .chain(payload)
            .fold(receiving("dead_letter").once(), |info, other| info.outside_of(other, why))
    }
}

impl Describe for DeliveryLimitLayer {
    fn info(&self) -> LayerInfo {
        let why = "it does not get the errors of outer layers";
        ["catch_panic", "lock_renewal", "expiry", "retry", "circuit_breaker", "dedup"]
            .into_iter()
            .fold(receiving("delivery_limit").once(), |info, other| info.outside_of(other, why))
            .setting("deliveries", self.limit())
            .inside_of("dead_letter", "its dead letters are not made to fit")
    }
}

impl Describe for CatchPanicLayer {
    fn info(&self) -> LayerInfo {
        receiving("catch_panic")
    }
}

impl<N> Describe for LockRenewalLayer<N> {
    fn info(&self) -> LayerInfo {
        let policy = self.policy();
        let (lock, every) = (policy.lock(), policy.asked_every());
        let info = receiving("lock_renewal")
            .once()
            .setting("lock", format_args!("{lock:?}"))
            .setting("every", format_args!("{every:?}"))
            .outside_of("retry", "the lock runs out between two attempts")
            .outside_of("dedup", "the lock runs out while a duplicate waits for the first message");
        if every < lock {
            return info;
        }
        info.problem(format!(
            "`lock_renewal` renews every {every:?} a lock of {lock:?}, which is lost by then: renew sooner"
        ))
    }
}

impl<C> Describe for ExpiryLayer<C> {
    fn info(&self) -> LayerInfo {
        let why = "messages that expire meanwhile are handled";
        receiving("expiry")
            .once()
            .inside_of("lock_renewal", why)
            .outside_of("dedup", "the id of an expired message stays reserved")
    }
}

impl<L: Later> Describe for RetryLayer<L> {
    fn info(&self) -> LayerInfo {
        let info = receiving("retry")
            .once()
            .setting("immediate", self.immediate)
            .inside_of("expiry", "a copy of an expired message is sent");
        let later = self.later.settings();
        if later.is_empty() {
            return info;
        }
        later
            .into_iter()
            .fold(info, |info, (name, value)| info.setting(name, value))
            .outside_of("circuit_breaker", "a failure with a delayed retry counts as a success")
    }
}

impl Describe for CircuitBreakerLayer {
    fn info(&self) -> LayerInfo {
        let why = "that layer is always ready, and the consumer receives while the circuit is open";
        receiving("circuit_breaker").outside_of("partition", why).outside_of("dedup", why)
    }
}

impl<St, K, D> Describe for DedupLayer<St, K, D> {
    fn info(&self) -> LayerInfo {
        let why = "the copy of a delayed retry counts as a duplicate, and is lost";
        receiving("dedup").once().setting("scope", self.scope()).inside_of("retry", why)
    }
}

impl<M> Describe for MessageIdLayer<M> {
    fn info(&self) -> LayerInfo {
        let why = "the message already has a random MessageId";
        sending("message_id")
            .once()
            .outside_of("retry", "every attempt is a new message")
            .outside_of("sign", why)
            .outside_of("encrypt", why)
    }
}

impl Describe for BusyPauseLayer {
    fn info(&self) -> LayerInfo {
        sending("busy_pause").inside_of("retry", "a pause ends an attempt")
    }
}

impl<C: CodecSet> Describe for EncodeLayer<C> {
    fn info(&self) -> LayerInfo {
        let info = sending("encode").once().codecs(self.codecs.describe().table());
        let info = info.outside_of("size_limit", "the size is not known");
        match self.codec {
            Some(codec) => info.setting("codec", codec),
            None => info,
        }
    }
}

impl Describe for SizeLimitLayer {
    fn info(&self) -> LayerInfo {
        let limit = self.limit();
        let info = sending("size_limit").setting("bytes", limit);
        let info = ["compress", "sign", "encrypt", "check_in"]
            .into_iter()
            .fold(info, |info, other| info.inside_of(other, "the limit does not apply to the size that is sent"));
        if limit > 0 {
            return info;
        }
        info.problem("`size_limit` lets no byte pass, and every message has some: set a limit above 0")
    }
}

impl Describe for InFlightLayer {
    fn info(&self) -> LayerInfo {
        sending("in_flight")
            .setting("limit", self.limit())
            .inside_of("retry", "a permit is held while no send is in flight")
            .inside_of("encode", "a permit is held while a value is encoded")
            .inside_of("check_in", "a permit is held while a body is stored")
    }
}

impl Describe for SendRetryLayer {
    fn info(&self) -> LayerInfo {
        let (attempts, backoff, repeats_unknown) = self.settings();
        let info = sending("send_retry").once().setting("attempts", attempts).setting("backoff", backoff);
        let info = if repeats_unknown { info.setting("unknown outcome", "repeated") } else { info };
        let info = info
            .inside_of("trace", "each attempt has a span, and no span has the final result")
            .inside_of("message_id", "every attempt is a new message")
            .outside_of("busy_pause", "a pause ends an attempt")
            .outside_of("in_flight", "a permit is held while no send is in flight");
        if attempts > 1 {
            return info;
        }
        info.problem("`send_retry` makes one attempt, and repeats nothing: allow 2 attempts or more")
    }
}

impl<F, S, R, D> Describe for FromFnLayer<F, S, R, D> {
    fn info(&self) -> LayerInfo {
        LayerInfo::new("from_fn")
    }
}
