use super::{keys, receiving, sending};
use crate::{
    middleware::encryption::{DecryptLayer, EncryptLayer},
    pipeline::{Describe, LayerInfo},
};

impl Describe for EncryptLayer {
    fn info(&self) -> LayerInfo {
        let info = sending("encrypt").outside_of("check_in", "the store has what is not encrypted");
        keys::writing(info, &self.keys, &self.bound)
    }
}

impl Describe for DecryptLayer {
    fn info(&self) -> LayerInfo {
        let plaintext = if self.allow_plaintext { "passes" } else { "refused" };
        let info = receiving("decrypt", "the copy that a retry sends is not encrypted")
            .setting("plaintext", plaintext)
            .inside_of("check_out", "there is no body to decrypt");
        keys::reading(info, &self.keys, &self.required)
    }
}
