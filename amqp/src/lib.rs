#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

pub mod codec;
pub mod engine;
pub mod frame;
#[cfg(feature = "message")]
pub mod mapping;
pub mod message;
#[cfg(feature = "serde")]
pub mod serde;
pub mod types;
pub mod value;

pub use bytes;
