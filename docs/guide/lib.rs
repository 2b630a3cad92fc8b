//! The chapters of the guide. `cargo test --doc --package consign-guide` compiles each Rust block, and runs those that need no
//! server.
#![forbid(unsafe_code)]
#![expect(
    clippy::doc_markdown,
    reason = "the pages are read as a book, where a property of a message has no backticks"
)]

#[doc = include_str!("src/introduction.md")]
pub mod introduction {}
#[doc = include_str!("src/wrap.md")]
pub mod wrap {}
#[doc = include_str!("src/handlers.md")]
pub mod handlers {}
#[doc = include_str!("src/consumer.md")]
pub mod consumer {}
#[doc = include_str!("src/web.md")]
pub mod web {}
#[doc = include_str!("src/rpc.md")]
pub mod rpc {}
#[doc = include_str!("src/versions.md")]
pub mod versions {}
#[doc = include_str!("src/dead-letters.md")]
pub mod dead_letters {}
#[doc = include_str!("src/rabbitmq.md")]
pub mod rabbitmq {}
#[doc = include_str!("src/testing.md")]
pub mod testing {}
#[doc = include_str!("src/tuning.md")]
pub mod tuning {}
#[doc = include_str!("src/transport.md")]
pub mod transport {}

// Pages of the reference whose programs need transports and stores.
#[doc = include_str!("../decoding.md")]
pub mod decoding {}
#[doc = include_str!("../other-languages.md")]
pub mod other_languages {}
#[doc = include_str!("../rpc.md")]
pub mod rpc_reference {}
#[doc = include_str!("../wrapping-a-client.md")]
pub mod wrapping_a_client {}
