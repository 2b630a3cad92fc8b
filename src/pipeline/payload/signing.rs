use super::{keys, receiving, sending};
use crate::{
    middleware::signing::{SignLayer, VerifyLayer},
    pipeline::{Describe, LayerInfo},
};

impl Describe for SignLayer {
    fn info(&self) -> LayerInfo {
        let info = sending("sign")
            .inside_of("encrypt", "the signature is of another body than the one that is sent")
            .outside_of("check_in", "the body is not signed");
        keys::writing(info, &self.keys, &self.bound)
    }
}

impl Describe for VerifyLayer {
    fn info(&self) -> LayerInfo {
        let unsigned = if self.allow_unsigned { "passes" } else { "refused" };
        let info = receiving("verify", "the copy that a retry sends is not signed")
            .setting("unsigned", unsigned)
            .inside_of("check_out", "there is no body to verify")
            .outside_of("decrypt", "the signature is of another body than the one that is verified");
        keys::reading(info, &self.keys, &self.required)
    }
}
