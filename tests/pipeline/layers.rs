//! The layers that change bodies, as they are set in the tests of pipelines.

use std::{
    future::{Ready, ready},
    time::Duration,
};

use consign::{
    Message,
    middleware::{
        claim_check::{MemoryBlobs, ResolveClaimLayer, StoreClaimLayer},
        content_encoding::{CompressLayer, DecompressLayer, Encoding},
        dedup::{DedupLayer, MemoryStore},
        encryption::{DecryptLayer, EncryptLayer},
        keys::{Key, Keys},
        lock_renewal::LockRenewalLayer,
        renewal::Renewal,
        signing::{SignLayer, VerifyLayer},
    },
    pipeline::{Describe, LayerInfo},
    transport::SettleError,
};
use tower::Layer;

pub(crate) const MINUTE: Duration = Duration::from_secs(60);

pub(crate) fn key(id: &str) -> Key {
    Key::new(id, [id.as_bytes()[0]; 32]).unwrap()
}

pub(crate) fn to_encrypt() -> Keys {
    Keys::new(key("2026"))
}

pub(crate) fn to_sign() -> Keys {
    Keys::new(key("signs"))
}

pub(crate) fn dedup() -> DedupLayer<MemoryStore> {
    DedupLayer::new(MemoryStore::new(10 * MINUTE), "orders")
}

pub(crate) fn decompress() -> DecompressLayer {
    DecompressLayer::new([Encoding::Gzip, Encoding::Zstd])
}

pub(crate) fn compress() -> CompressLayer {
    CompressLayer::new(Encoding::Gzip)
}

pub(crate) fn sign() -> SignLayer {
    SignLayer::new(to_sign())
}

pub(crate) fn encrypt() -> EncryptLayer {
    EncryptLayer::new(to_encrypt())
}

pub(crate) fn check_in() -> StoreClaimLayer<MemoryBlobs> {
    StoreClaimLayer::new(blobs())
}

pub(crate) fn check_out() -> ResolveClaimLayer<MemoryBlobs> {
    ResolveClaimLayer::new(blobs())
}

pub(crate) fn verify() -> VerifyLayer {
    VerifyLayer::new(to_sign())
}

pub(crate) fn decrypt() -> DecryptLayer {
    DecryptLayer::new(to_encrypt())
}

pub(crate) fn blobs() -> MemoryBlobs {
    MemoryBlobs::new(1 << 20)
}

pub(crate) fn renewal() -> LockRenewalLayer<impl Fn(&Message) -> Ready<Result<(), SettleError>> + Clone> {
    LockRenewalLayer::new(|_: &Message| ready(Ok(())), Renewal::new(MINUTE))
}

macro_rules! service {
    () => {
        tower::service_fn(async |_: consign::Message| Ok::<_, tower::BoxError>(()))
    };
}
pub(crate) use service;

/// Says what a layer says, and adds nothing to a stack.
pub(crate) struct Says<D>(pub(crate) D);

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
