//! The layers of a sending and of a receiving stack.
//!
//! A receiving stack is a `Service<Message, Response = Disposition>` whose error converts into a
//! [`BoxError`](tower::BoxError). A sending stack is a `Service<R, Response = ()>` whose error converts into a
//! [`SendError`](crate::transport::SendError), where `R` is a `Message`, a `Batch`, or a type that converts into one.
//! tower's own layers can be anywhere between these.
//!
//! | outer to inner | layers |
//! |---|---|
//! | sending | [`trace`] · [`message_id`] · timeout · [`send_retry`] · [`busy_pause`] · [`encode`] · `content_encoding` · `encryption`, `signing` · `claim_check` · [`size_limit`] · [`in_flight`] · transport |
//! | receiving | [`trace`] · [`dead_letter`] · [`delivery_limit`] · [`catch_panic`] · timeout · [`lock_renewal`] · [`expiry`] · [`mod@retry`] · [`circuit_breaker`] · [`partition`] · [`spawn`] · [`dedup`] · `claim_check` · `signing`, `encryption` · `content_encoding` · `interop` · `json_schema` · handler |
//!
//! A timeout and [`catch_panic`] can be on either side of [`mod@retry`]. A timeout outside of `retry` bounds all attempts
//! of a delivery. A timeout inside bounds one attempt. Outside of `retry`, [`catch_panic`] fails the delivery at the first
//! panic. Inside, a panic is a failed attempt, which is retried.
//!
//! To write your own layer as an `async fn`, use [`from_fn`].
//!
//! # Failures and overload
//!
//! | case | layer | effect |
//! |---|---|---|
//! | one message fails, and may succeed soon | [`mod@retry`], at once | it keeps its slot and its lock |
//! | one message fails, and may succeed later | [`mod@retry`], delayed | the broker has a copy, or delays the message |
//! | one message fails in each delivery, and the broker does not count | [`delivery_limit`] | it is dead-lettered after its last delivery |
//! | all messages fail | [`circuit_breaker`] | the stack is not ready: messages wait in their queue, and one failed delivery counts in each pause |
//! | more messages per second than a dependency can handle | tower's rate limit | the stack is not ready until the next period |
//! | more messages at once | [`Consumer::concurrency`](crate::consumer::Consumer::concurrency) | they wait in their queue |
//! | messages of one key have to run one after the other | [`partition`] | they wait in their slots, with their locks renewed |
//! | handlers compute, and one core is not enough | [`spawn`] | each runs in a task of its own |
//! | the broker is busy | [`busy_pause`] | sends wait |
//! | one send is refused, and may succeed soon | [`send_retry`] | it is sent again, with the same MessageId |
//! | more sends at once | [`in_flight`] | sends wait, in their order |
//!
//! # Performance
//!
//! The page of each layer has, under *Cost*, the cost for a message that the layer passes on. The table *Layers* of
//! `docs/benchmarks.md` has the instructions and allocations of each layer over an empty stack; `cargo xtask bench --only
//! layers` measures them. For tower's own layers see their documentation; *buffer* adds a task.
//!
//! # Readiness
//!
//! Every layer is ready when its inner service is, with these exceptions:
//!
//! | layer | ready | waits in the call |
//! |---|---|---|
//! | [`circuit_breaker`] | not while its circuit is open | no |
//! | [`partition`] | always | for its key, and for the inner service |
//! | [`dedup`] | always, unless the inner service has failed to become ready | for its id, and for the inner service |
//! | [`in_flight`] | always | for a permit, and for the inner service |
//! | [`busy_pause`] | when its inner service is | for the end of a pause |
//!
//! A layer that is always ready hides that an inner one is not: the consumer receives nevertheless.
//!
//! tower's concurrency limit and buffer reserve a permit when they become ready: make a stack ready when the message has
//! arrived, and call it at once.

pub mod busy_pause;
pub mod catch_panic;
pub mod circuit_breaker;
#[cfg(feature = "claim-check")]
pub mod claim_check;
#[cfg(any(feature = "gzip", feature = "zstd", feature = "deflate"))]
pub mod content_encoding;
pub mod dead_letter;
pub mod dedup;
pub mod delivery_limit;
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
    feature = "interop",
    feature = "json-schema"
))]
mod handle_future;
pub mod in_flight;
#[cfg(feature = "interop")]
pub mod interop;
#[cfg(feature = "json-schema")]
pub mod json_schema;
#[cfg(any(feature = "encryption", feature = "signing"))]
pub mod keys;
pub mod lock_renewal;
pub mod message_id;
pub mod partition;
#[cfg(any(
    feature = "gzip",
    feature = "zstd",
    feature = "deflate",
    feature = "encryption",
    feature = "signing",
    feature = "interop",
    feature = "json-schema"
))]
mod reading;
pub mod renewal;
pub mod retry;
#[cfg(any(feature = "gzip", feature = "zstd", feature = "deflate", feature = "encryption", feature = "signing"))]
mod rewriting;
mod send_future;
pub mod send_retry;
#[cfg(feature = "signing")]
pub mod signing;
pub mod size_limit;
pub mod spawn;
pub mod trace;

#[cfg(any(
    feature = "gzip",
    feature = "zstd",
    feature = "deflate",
    feature = "encryption",
    feature = "signing",
    feature = "interop",
    feature = "json-schema"
))]
use self::reading::Reader;
#[cfg(any(feature = "gzip", feature = "zstd", feature = "deflate", feature = "encryption", feature = "signing"))]
use self::rewriting::Rewriter;
#[cfg(any(feature = "gzip", feature = "zstd", feature = "deflate", feature = "encryption", feature = "signing"))]
pub(crate) use self::rewriting::Rewriting;
pub(crate) use self::send_future::SendFuture;
#[cfg(any(
    feature = "gzip",
    feature = "zstd",
    feature = "deflate",
    feature = "encryption",
    feature = "signing",
    feature = "interop",
    feature = "json-schema"
))]
pub(crate) use self::{handle_future::HandleFuture, reading::Reading};
