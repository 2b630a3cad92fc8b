//! A layer that sets a `MessageId` on messages without one.
//!
//! Duplicate detection, by a broker or by a consumer, compares the `MessageId`. A `MessageId` that a message already has is
//! not changed.
//!
//! ```
//! use consign::{Message, middleware::message_id::MessageIdLayer, transport::SendError};
//! use tower::{ServiceBuilder, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), SendError> {
//! let sender = ServiceBuilder::new().layer(MessageIdLayer::new()).service(service_fn(|message: Message| async move {
//!     assert_eq!(message.message_id().map(str::len), Some(36));
//!     Ok::<_, SendError>(())
//! }));
//! sender.oneshot(Message::new("body")).await
//! # }
//! ```
//!
//! # Failure
//!
//! Generating random ids cannot fail. An id from a [`MakeMessageId`] is invalid if it is empty or has more than 128 UTF-16
//! code units. The send then fails as a [`SendError`](crate::transport::SendError) of the kind
//! [`InvalidArgument`](crate::transport::ErrorKind::InvalidArgument), and nothing is sent, also of a batch.
//!
//! # Order
//!
//! Outside of every retry. A retry clones the request that it gets. With the id set outside, all attempts have one id, and
//! the broker drops the second one. With the id set inside, every attempt is a new message, and a lost acknowledgement
//! leaves two messages.
//!
//! # Cost
//!
//! A message that has an id is passed on without being copied, also if it is shared. Generating a random id allocates. The
//! table *Layers* of `docs/benchmarks.md` has the figures.

mod service;

use std::{borrow::Cow, fmt};

use tower_layer::Layer;

use self::service::MessageId;
use crate::message::random_id::random_uuid_text;

/// Makes message ids: a closure `Fn() -> String`, or your own type.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not make message ids",
    note = "give a closure `Fn() -> String`, or implement `MakeMessageId`"
)]
pub trait MakeMessageId {
    /// A new id: 1 to 128 UTF-16 code units.
    fn make_message_id(&self) -> Cow<'static, str>;
}

impl<F, T> MakeMessageId for F
where
    F: Fn() -> T,
    T: Into<Cow<'static, str>>,
{
    fn make_message_id(&self) -> Cow<'static, str> {
        self().into()
    }
}

/// Random ids: UUIDs of version 4, in lower case and with hyphens.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default)]
pub struct RandomId;

impl MakeMessageId for RandomId {
    fn make_message_id(&self) -> Cow<'static, str> {
        random_uuid_text().into()
    }
}

/// A layer that sets a `MessageId` on messages without one; see the [module](self).
#[derive(Clone, Copy, Default)]
pub struct MessageIdLayer<M = RandomId>(M);

impl MessageIdLayer {
    /// Stamps random ids.
    #[must_use]
    pub const fn new() -> Self {
        Self(RandomId)
    }
}

impl<M: MakeMessageId> MessageIdLayer<M> {
    /// Stamps the ids that `make` makes.
    #[must_use]
    pub const fn with(make: M) -> Self {
        Self(make)
    }
}

impl<S, M: Clone> Layer<S> for MessageIdLayer<M> {
    type Service = MessageId<S, M>;

    fn layer(&self, inner: S) -> Self::Service {
        MessageId { inner, make: self.0.clone() }
    }
}

impl<M> fmt::Debug for MessageIdLayer<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MessageIdLayer").finish_non_exhaustive()
    }
}
