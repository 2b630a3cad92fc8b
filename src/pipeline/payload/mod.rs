//! The descriptions of the layers that change bodies. Why is on the page of each, under *Order*.

#[cfg(feature = "claim-check")]
mod claim_check;
#[cfg(any(feature = "gzip", feature = "zstd", feature = "deflate"))]
mod content_encoding;
#[cfg(feature = "encryption")]
mod encryption;
#[cfg(feature = "interop")]
mod interop;
#[cfg(any(feature = "encryption", feature = "signing"))]
pub(super) mod keys;
#[cfg(feature = "signing")]
mod signing;

use super::{LayerInfo, layers};

/// A layer that reads a body: inside of layers that pass the message on unchanged, and of those that may
/// find it unneeded.
fn receiving(name: &'static str, copied: &'static str) -> LayerInfo {
    layers::receiving(name)
        .once()
        .inside_of("retry", copied)
        .inside_of("expiry", "the body of an expired message is read")
        .inside_of("dedup", "the body of a duplicate is read")
}

/// Changes a body, which is there once a value is encoded.
fn sending(name: &'static str) -> LayerInfo {
    layers::sending(name).once().inside_of("encode", "there are no bytes yet")
}
