//! A stack that is checked when it is built, and that describes its layers.
//!
//! ```
//! # #[cfg(feature = "json")] {
//! use std::time::Duration;
//! use consign::{
//!     codecs::Codecs,
//!     consumer::Settings,
//!     middleware::retry::RetryLayer,
//!     pipeline::Pipeline,
//!     routing::{Body, Router},
//! };
//! use tower::timeout::TimeoutLayer;
//!
//! let router = Router::new(Codecs::json()).route("order.created", async |Body(_): Body<u64>| {}).build()?;
//! let pipeline = Pipeline::receiving("orders")
//!     .consumer(&Settings::new().concurrency(8).lock(Duration::from_secs(60)))
//!     .layer(RetryLayer::new().immediate(2))
//!     .other("timeout", TimeoutLayer::new(Duration::from_secs(5)))
//!     .router(router)?;
//! assert_eq!(
//!     pipeline.describe().to_string(),
//!     "\
//! orders, receiving
//! consumer: 8 at once, prefetch 0, locks of 60s, renewed for 300s, drains for 30s, operations within 60s
//! layers, outer to inner
//!   1 retry: immediate 2
//!   2 timeout
//! routes
//!   subject \"order.created\"
//!   others: dead letter, UnknownMessageType
//! codecs
//!   json: self-describing, writes application/json, reads application/json, text/json, application/x-json, text/x-json, */*+json
//! ContentType
//!   missing: json (default)
//!   unknown: reject
//!   malformed: reject
//!   failed: reject
//!   not allowed: reject
//! chain: none
//! allowed: every type
//! limits: 262144 bytes, depth 64, 65536 elements"
//! );
//! let stack = pipeline.into_service();
//! # drop(stack);
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Pipeline`] composes layers as tower's `ServiceBuilder` does, into the same type of service, without a cost at run
//! time. By [`Describe`] a layer declares its name, its settings, and which other layers it has to be inside or outside of.
//! [`Pipeline::other`] adds a layer without a description under a name. The description is also available as data, by
//! serde.
//!
//! # Checks
//!
//! | error | type |
//! |---|---|
//! | two codecs for one media type, an unused chain, positional codecs in it, unknown names | [`ConfigError`](crate::codecs::ConfigError), when a set is built |
//! | two routes for one message, and types with wrong names, aliases, versions or codecs | [`BuildError`](crate::BuildError), when a router is built |
//! | layers in a wrong order, twice, or on the wrong side; settings of layers and consumer; types that are sent; properties that affect decoding and are not bound by a signature | [`BuildError`](crate::BuildError), when a pipeline is built |
//!
//! Each error is the first violation that is found, has a kind, and says what to change.

mod builder;
mod description;
mod layer;
mod layers;
#[cfg(any(
    feature = "gzip",
    feature = "zstd",
    feature = "deflate",
    feature = "encryption",
    feature = "signing",
    feature = "claim-check"
))]
mod payload;
mod trace;

pub use self::{
    builder::{Pipeline, Pipelined},
    description::PipelineDescription,
    layer::{Describe, LayerInfo, Setting, Side},
};
