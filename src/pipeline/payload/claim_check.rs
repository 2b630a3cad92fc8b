use super::{receiving, sending};
use crate::{
    middleware::claim_check::{ResolveClaimLayer, StoreClaimLayer},
    pipeline::{Describe, LayerInfo},
};

impl<B> Describe for StoreClaimLayer<B> {
    fn info(&self) -> LayerInfo {
        sending("check_in").setting("threshold", self.threshold)
    }
}

impl<B> Describe for ResolveClaimLayer<B> {
    fn info(&self) -> LayerInfo {
        let info = receiving("check_out", "the copy that a retry sends has the body, and no claim")
            .setting("bytes", self.max_bytes)
            .inside_of("lock_renewal", "the lock runs out while a body is fetched");
        if self.max_bytes > 0 {
            return info;
        }
        info.problem("`check_out` fetches no byte, so that no message with a claim passes: set `max_bytes` above 0")
    }
}
