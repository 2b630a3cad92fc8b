//! A layer that refuses messages above a maximum size before they are sent.
//!
//! ```
//! use consign::{Message, middleware::size_limit::SizeLimitLayer, transport::{ErrorKind, SendError}};
//! use tower::{ServiceBuilder, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let sender = ServiceBuilder::new()
//!     .layer(SizeLimitLayer::new(1024))
//!     .service(service_fn(|_: Message| async { Ok::<_, SendError>(()) }));
//! let error = sender.oneshot(Message::new(vec![0; 1025])).await.unwrap_err();
//! assert_eq!(error.kind(), ErrorKind::MessageSizeExceeded);
//! # }
//! ```
//!
//! # Failure
//!
//! If a message, or a batch as a whole, is larger than the limit, the call fails as a [`SendError`](crate::transport::SendError) of the kind
//! [`MessageSizeExceeded`](crate::transport::ErrorKind::MessageSizeExceeded). The error has the size and the limit. The inner service is not
//! called, and nothing of a batch is sent.
//!
//! # Order
//!
//! Inside of all layers that change the size: encode, compression, encryption, claim check. It takes encoded messages only,
//! so it does not compile outside of encode.
//!
//! # Cost
//!
//! It adds the sizes of all properties of each message, so the cost grows with their number. Nothing is allocated. The
//! table *Layers* of `docs/benchmarks.md` has the figures.

mod service;

use tower_layer::Layer;

use self::service::SizeLimit;
use crate::message::limits;

/// A layer that refuses messages above a maximum size; see the [module](self). The default is 256 KiB.
#[derive(Clone, Copy, Debug)]
pub struct SizeLimitLayer(usize);

impl SizeLimitLayer {
    /// Refuses messages larger than `bytes`, bodies and properties together.
    #[must_use]
    pub const fn new(bytes: usize) -> Self {
        Self(bytes)
    }

    /// Returns the limit, in bytes.
    #[must_use]
    pub const fn limit(&self) -> usize {
        self.0
    }
}

impl Default for SizeLimitLayer {
    fn default() -> Self {
        Self(limits::MESSAGE_BYTES)
    }
}

impl<S> Layer<S> for SizeLimitLayer {
    type Service = SizeLimit<S>;

    fn layer(&self, inner: S) -> SizeLimit<S> {
        SizeLimit { inner, limit: self.0 }
    }
}
