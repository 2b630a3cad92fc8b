//! The layers of a sending and of a receiving stack.
//!
//! A receiving stack is a `Service<Message, Response = Disposition>` whose error converts into a
//! [`BoxError`](tower::BoxError); a sending stack is a `Service<R, Response = ()>` whose error converts into a
//! [`SendError`](crate::transport::SendError), where `R` is a `Message`, a `Batch` or what becomes one. tower's own layers
//! fit between ours in any order.
//!
//! | outer to inner | layers |
//! |---|---|
//! | sending | [`message_id`] · timeout · retry · [`busy_pause`] · [`encode`] · [`size_limit`] · [`in_flight`] · transport |
//! | receiving | [`dead_letter`] · [`catch_panic`] · timeout · [`lock_renewal`] · [`expiry`] · [`mod@retry`] · [`circuit_breaker`] · [`dedup`] · handler |
//!
//! A layer of the user's own is an `async fn`: [`from_fn`].
//!
//! Every layer is ready when the service inside is, but for [`in_flight`], which waits inside the call; [`busy_pause`] does
//! both. tower's
//! concurrency limit and buffer reserve a place when they become ready: make a stack ready when the message is at hand,
//! and call it at once.

pub mod busy_pause;
pub mod catch_panic;
pub mod circuit_breaker;
pub mod dead_letter;
pub mod dedup;
pub mod encode;
pub mod expiry;
pub mod from_fn;
pub mod in_flight;
pub mod lock_renewal;
pub mod message_id;
pub mod renewal;
pub mod retry;
mod send_future;
pub mod size_limit;

pub use send_future::SendFuture;
