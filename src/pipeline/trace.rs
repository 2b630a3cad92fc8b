//! The description of the layer of spans.

use super::{
    Describe, LayerInfo,
    layers::{receiving, sending},
};
use crate::middleware::{
    from_fn::{Receiving, Sending},
    trace::TraceLayer,
};

impl Describe for TraceLayer<Receiving> {
    fn info(&self) -> LayerInfo {
        let answer = [
            "dead_letter",
            "catch_panic",
            "lock_renewal",
            "expiry",
            "dedup",
            "check_out",
            "verify",
            "decrypt",
            "decompress",
            "masstransit",
            "nservicebus",
        ];
        outside_of_all(receiving("trace"), &answer, "messages that it settles have no span")
            .setting("destination", self.destination())
            .outside_of("retry", "each attempt has a span, and no span has the final result")
    }
}

impl Describe for TraceLayer<Sending> {
    fn info(&self) -> LayerInfo {
        let refuse = ["encode", "sign", "encrypt", "check_in", "size_limit"];
        outside_of_all(sending("trace"), &refuse, "messages that it refuses have no span")
            .setting("destination", self.destination())
            .outside_of("retry", "each attempt has a span, and no span has the final result")
    }
}

fn outside_of_all(info: LayerInfo, others: &[&'static str], why: &'static str) -> LayerInfo {
    others.iter().fold(info.once(), |info, other| info.outside_of(other, why))
}
