//! The fuzz targets: functions that take any bytes and panic if a property does not hold.
//!
//! The programs in `fuzz/fuzz_targets` call them from libFuzzer. The tests of this crate call them with each file of `fuzz/seeds`,
//! on any toolchain.
#![forbid(unsafe_code)]

mod any;
mod chain;
mod codec;
mod content_type;
mod dedup;
mod engine;
mod envelopes;
mod formats;
mod headers;
mod http;
mod message;
mod rules;
mod shape;
mod source;
mod store;

pub use self::{
    chain::chain, codec::codec, content_type::content_type, dedup::dedup, engine::engine, envelopes::envelopes,
    formats::formats, headers::headers, http::http, message::message, rules::rules, store::store,
};

/// A target, which panics if a property does not hold.
pub type Target = fn(&[u8]);

/// The targets by name.
pub const TARGETS: [(&str, Target); 12] = [
    ("codec", codec),
    ("message", message),
    ("engine", engine),
    ("content_type", content_type),
    ("formats", formats),
    ("chain", chain),
    ("rules", rules),
    ("http", http),
    ("headers", headers),
    ("envelopes", envelopes),
    ("dedup", dedup),
    ("store", store),
];
