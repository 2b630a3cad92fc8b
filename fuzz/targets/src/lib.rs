//! The fuzz targets of `consign-amqp`: functions that take any bytes and panic if a property does not hold.
//!
//! The programs in `fuzz/fuzz_targets` call them from libFuzzer. The tests of this crate call them with each file of `fuzz/seeds`,
//! on any toolchain.
#![forbid(unsafe_code)]

mod codec;
mod engine;
mod message;
mod shape;
mod source;

pub use self::{codec::codec, engine::engine, message::message};

/// A target, which panics if a property does not hold.
pub type Target = fn(&[u8]);

/// The targets by name.
pub const TARGETS: [(&str, Target); 3] = [("codec", codec), ("message", message), ("engine", engine)];
