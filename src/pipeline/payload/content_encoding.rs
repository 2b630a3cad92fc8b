use super::{receiving, sending};
use crate::{
    middleware::content_encoding::{CompressLayer, DecompressLayer, Encoding},
    pipeline::{Describe, LayerInfo},
};

impl Describe for CompressLayer {
    fn info(&self) -> LayerInfo {
        sending("compress")
            .setting("encoding", self.encoding.name())
            .setting("level", self.encoding.level(self.level))
            .setting("threshold", self.threshold)
            .outside_of("sign", "the signature is of another body than the one that is sent")
            .outside_of("encrypt", "what is encrypted does not get smaller")
            .outside_of("check_in", "the store has the body as it was")
    }
}

impl Describe for DecompressLayer {
    fn info(&self) -> LayerInfo {
        let names: Vec<_> = self.encodings.iter().copied().map(Encoding::name).collect();
        let info = receiving("decompress", "the copy that a retry sends is not compressed")
            .setting("encodings", if names.is_empty() { "none".into() } else { names.join(" ") })
            .setting("bytes", self.max_bytes)
            .setting("ratio", self.max_ratio)
            .inside_of("check_out", "there is no body to decompress")
            .inside_of("verify", "the signature is of another body than the one that is verified")
            .inside_of("decrypt", "what it gets is encrypted");
        if names.is_empty() {
            return info.problem("`decompress` reads no encoding, so that no compressed message passes: name one");
        }
        if self.max_bytes == 0 {
            return info.problem("`decompress` lets no byte pass: set `max_bytes` above 0");
        }
        info
    }
}
