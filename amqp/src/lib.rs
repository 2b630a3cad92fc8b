#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

#[cfg(feature = "tokio")]
pub mod client;
pub mod codec;
#[cfg(feature = "tokio")]
mod driver;
pub mod engine;
pub mod frame;
#[cfg(feature = "message")]
pub mod mapping;
pub mod message;
#[cfg(feature = "serde")]
pub mod serde;
#[cfg(feature = "tokio")]
pub mod server;
#[cfg(feature = "tokio")]
pub mod stream;
pub mod types;
pub mod value;

pub use bytes;
#[cfg(feature = "tls")]
pub use tokio_rustls::rustls;
