//! The layers of a sending and of a receiving stack.
//!
//! A receiving stack is a `Service<Message, Response = Disposition>` whose error converts into a
//! [`BoxError`](tower::BoxError); a sending stack is a `Service<R, Response = ()>` whose error converts into a
//! [`SendError`](crate::transport::SendError), where `R` is a `Message`, a `Batch` or what becomes one. tower's own layers
//! fit between ours in any order.
//!
//! | outer to inner | layers |
//! |---|---|
//! | sending | [`trace`] · [`message_id`] · timeout · retry · [`busy_pause`] · [`encode`] · `content_encoding` · `encryption`, `signing` · `claim_check` · [`size_limit`] · [`in_flight`] · transport |
//! | receiving | [`trace`] · [`dead_letter`] · [`catch_panic`] · timeout · [`lock_renewal`] · [`expiry`] · [`mod@retry`] · [`circuit_breaker`] · [`dedup`] · `claim_check` · `signing`, `encryption` · `content_encoding` · `interop` · handler |
//!
//! A layer of the user's own is an `async fn`: [`from_fn`].
//!
//! # Too fast, or failing
//!
//! | what is too much | layer | meanwhile |
//! |---|---|---|
//! | one message fails, and may succeed soon | [`mod@retry`], at once | it keeps its slot and its lock |
//! | one message fails, and may succeed in a while | [`mod@retry`], later | a copy waits at the broker |
//! | all messages fail | [`circuit_breaker`] | the stack is not ready: messages wait in their queue, and use no deliveries up |
//! | more messages in a second than a dependency bears | tower's rate limit | the same, until its next period |
//! | more messages at once | [`Consumer::concurrency`](crate::consumer::Consumer::concurrency) | they wait in their queue |
//! | the broker is busy | [`busy_pause`] | sends wait |
//! | more sends at once | [`in_flight`] | sends wait, in their order |
//!
//! # What they cost
//!
//! Each layer's page says what it does for a message that it has no reason to stop, under *Cost*. How many instructions and
//! allocations that is stands in the table *Layers* of `docs/benchmarks.md`, counted one by one over an empty stack; `cargo
//! xtask bench --only layers` counts it again. tower's own layers add what their documentation says, and *buffer* a task.
//!
//! # Readiness
//!
//! Every layer is ready when the service inside is, but for [`circuit_breaker`], which is not while its circuit is open,
//! and [`in_flight`], which waits inside the call; [`busy_pause`] does both. tower's concurrency limit and buffer reserve a
//! place when they become ready: make a stack ready when the message is at hand, and call it at once.

pub mod busy_pause;
pub mod catch_panic;
pub mod circuit_breaker;
#[cfg(feature = "claim-check")]
pub mod claim_check;
#[cfg(any(feature = "gzip", feature = "zstd", feature = "deflate"))]
pub mod content_encoding;
pub mod dead_letter;
pub mod dedup;
pub mod encode;
#[cfg(feature = "encryption")]
pub mod encryption;
pub mod expiry;
pub mod from_fn;
#[cfg(any(
    feature = "gzip",
    feature = "zstd",
    feature = "deflate",
    feature = "encryption",
    feature = "signing",
    feature = "interop"
))]
mod handle_future;
pub mod in_flight;
#[cfg(feature = "interop")]
pub mod interop;
#[cfg(any(feature = "encryption", feature = "signing"))]
pub mod keys;
pub mod lock_renewal;
pub mod message_id;
#[cfg(any(
    feature = "gzip",
    feature = "zstd",
    feature = "deflate",
    feature = "encryption",
    feature = "signing",
    feature = "interop"
))]
mod reading;
pub mod renewal;
pub mod retry;
#[cfg(any(feature = "gzip", feature = "zstd", feature = "deflate", feature = "encryption", feature = "signing"))]
mod rewriting;
mod send_future;
#[cfg(feature = "signing")]
pub mod signing;
pub mod size_limit;
pub mod trace;

#[cfg(any(
    feature = "gzip",
    feature = "zstd",
    feature = "deflate",
    feature = "encryption",
    feature = "signing",
    feature = "interop"
))]
use self::reading::Reader;
#[cfg(any(feature = "gzip", feature = "zstd", feature = "deflate", feature = "encryption", feature = "signing"))]
use self::rewriting::Rewriter;
#[cfg(any(feature = "gzip", feature = "zstd", feature = "deflate", feature = "encryption", feature = "signing"))]
pub use self::rewriting::Rewriting;
pub use self::send_future::SendFuture;
#[cfg(any(
    feature = "gzip",
    feature = "zstd",
    feature = "deflate",
    feature = "encryption",
    feature = "signing",
    feature = "interop"
))]
pub use self::{handle_future::HandleFuture, reading::Reading};
