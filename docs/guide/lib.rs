//! The chapters of the guide. `cargo test --doc --package consign-guide` compiles each Rust block, and runs those that need no
//! server.
#![forbid(unsafe_code)]

#[doc = include_str!("src/introduction.md")]
pub mod introduction {}
#[doc = include_str!("src/wrap.md")]
pub mod wrap {}
#[doc = include_str!("src/consumer.md")]
pub mod consumer {}
#[doc = include_str!("src/rpc.md")]
pub mod rpc {}
#[doc = include_str!("src/versions.md")]
pub mod versions {}
