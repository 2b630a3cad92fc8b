//! A layer that runs each call in a task of its own, so that the handlers of one consumer use several cores.
//!
//! ```
//! use consign::{Disposition, Message, middleware::spawn::SpawnLayer};
//! use tower::{BoxError, ServiceBuilder, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), BoxError> {
//! let stack = ServiceBuilder::new().layer(SpawnLayer::new()).service(service_fn(|_: Message| async {
//!     // Decodes and computes on any thread of the runtime.
//!     Ok::<_, BoxError>(Disposition::Complete)
//! }));
//! assert_eq!(stack.oneshot(Message::new("one order")).await?, Disposition::Complete);
//! # Ok(())
//! # }
//! ```
//!
//! Without it, all handlers of a [`Consumer`](crate::consumer::Consumer) run in its task: one core at a time. That is
//! faster for handlers that mostly wait.
//!
//! # Failure
//!
//! A panic of the handler continues in the caller: the consumer counts it and abandons that one message. A call that is
//! dropped, because its lock is lost or the drain timeout has passed, aborts its task. A handler that computes at that time
//! goes on to its next `await`. When the runtime shuts down, the call fails as [`NotRun`].
//!
//! # Order
//!
//! Directly outside of the router, or of those layers that are to run in the task too, such as decryption. The inner service
//! is made ready in the caller; a clone of it takes its place. The task is in the current span of `tracing`. The context of
//! OpenTelemetry belongs to a thread: put its `process` layer inside of this one.
//!
//! Outside of [`DedupLayer`](crate::middleware::dedup): a handler that computes when its call is dropped goes on, and the id
//! of its message has to stay reserved until then. Inside of [`PartitionLayer`](crate::middleware::partition), which starts
//! the messages of a key in their order.
//!
//! # Cost
//!
//! A task for each call: about 2,000 instructions and one allocation, and the inner service is cloned.

mod service;

use std::{error, fmt};

use tower_layer::Layer;

use self::service::Spawn;
use crate::pipeline::{Describe, LayerInfo, Side};

/// A layer that runs each call in a task of its own; see the [module](self).
#[derive(Clone, Copy, Debug, Default)]
pub struct SpawnLayer(());

/// The runtime shut down before the call had ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NotRun;

impl SpawnLayer {
    /// Creates the layer.
    #[must_use]
    pub const fn new() -> Self {
        Self(())
    }
}

impl<S> Layer<S> for SpawnLayer {
    type Service = Spawn<S>;

    fn layer(&self, inner: S) -> Spawn<S> {
        Spawn { inner }
    }
}

impl Describe for SpawnLayer {
    fn info(&self) -> LayerInfo {
        LayerInfo::new("spawn")
            .only(Side::Receiving)
            .outside_of("dedup", "a message whose handler computes when its call is dropped may be handled twice")
            .inside_of("partition", "messages of one key start in any order")
    }
}

impl fmt::Display for NotRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the runtime shut down before the handler had ended")
    }
}

impl error::Error for NotRun {}
