//! Handlers: `async fn`s whose arguments are taken out of the message, and the router that chooses between them.
//!
//! ```
//! use consign::{
//!     codecs::Codecs,
//!     routing::{Body, Router, State},
//!     settlement::Transient,
//! };
//! use serde::Deserialize;
//!
//! #[derive(Clone)]
//! struct Database;
//!
//! #[derive(Deserialize)]
//! struct Order {
//!     id: u64,
//! }
//!
//! async fn created(State(database): State<Database>, Body(order): Body<Order>) -> Result<(), Transient> {
//!     # let _ = (database, order.id);
//!     Ok(())
//! }
//!
//! async fn cancelled(Body(order): Body<Order>) {
//!     # let _ = order.id;
//! }
//!
//! let router = Router::with_state(Codecs::json(), Database)
//!     .route("order.created", created)
//!     .route("order.cancelled", cancelled)
//!     .build()?;
//! # Ok::<(), consign::routing::RouteError>(())
//! ```
//!
//! A router is a `Service<Message, Response = Disposition>`: the innermost service of a receiving stack. Routes compose as
//! types, so choosing one is a comparison of strings and no future is boxed. Where the type gets in the way, erase it at
//! the edge: `tower::util::BoxCloneSyncService::new(router)`.
//!
//! An argument that cannot be taken out of the message decides what becomes of it, and the handler is not called: a body
//! that cannot be decoded is dead-lettered with the attempts, a missing property as `MissingProperty`.
//!
//! A handler of several types takes an enum of them, and [`RouterBuilder::types`] sends it those: see
//! [`types`](crate::types).
//!
//! # Signed and encrypted messages
//!
//! [Signing](crate::middleware::signing) and [encryption](crate::middleware::encryption) authenticate the Subject, by which
//! routes are chosen, and the ContentType. Of what handlers take as arguments they do not authenticate To, the partition
//! key, the times, what the broker says, and application properties that are not bound.
//!
//! # Borrowing from the body
//!
//! A handler's arguments are owned, so `Body<OrderRef<'_>>` cannot be one: the compiler says that the implementation of
//! `Decode` is not general enough. Take the [`Payload`], which owns the message, and decode from it; the value lives as long
//! as the payload, also across awaits:
//!
//! ```
//! use consign::{codecs::CodecSet, routing::Payload, settlement::Undecodable};
//! use serde::Deserialize;
//!
//! #[derive(Deserialize)]
//! struct OrderRef<'a> {
//!     sku: &'a str,
//! }
//!
//! async fn created<C: CodecSet>(payload: Payload<C>) -> Result<(), Undecodable> {
//!     let order: OrderRef<'_> = payload.decode()?;
//!     assert!(!order.sku.is_empty());
//!     Ok(())
//! }
//! ```

mod check;
mod context;
mod describe;
mod extract;
mod handler;
#[doc(hidden)]
pub mod private;
mod property;
mod route;
mod router;
mod typed;
mod unknown;

pub use self::{
    check::{RouteError, RouteErrorKind},
    context::Context,
    describe::RouterDescription,
    extract::{Body, FromMessage, NotReceived, Payload, Raw, State},
    handler::Handler,
    property::{CorrelationId, MessageId, MissingProperty, ReplyTo, ReplyToSessionId, SessionId, Subject},
    router::{Router, RouterBuilder, RouterFuture},
    typed::Typed,
    unknown::{Forward, Ignore},
};
