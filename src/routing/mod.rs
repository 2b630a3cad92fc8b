//! Handlers, which are `async fn`s whose arguments are made from the message, and the router that selects one.
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
//! # Ok::<(), consign::BuildError>(())
//! ```
//!
//! A router is a `Service<Message, Response = Disposition>`: the innermost service of a receiving stack. The handlers are
//! part of its type, so no future is boxed. To erase the type, box the router:
//! `tower::util::BoxCloneSyncService::new(router)`.
//!
//! # Routes in modules
//!
//! [`Routes`] collects the handlers of a module. Its type does not list them, so a function can return it.
//! [`RouterBuilder::merge`] adds them to a router, and [`nest`](RouterBuilder::nest) adds them with a prefix before their
//! subjects. A handler takes a part of the state by [`FromRef`].
//!
//! # Layers of one handler
//!
//! A layer around the router gets every message. [`Handler::layer`] wraps one handler, and [`Routes::route_layer`] wraps the
//! handlers of a module:
//!
//! ```
//! use std::time::Duration;
//! use consign::{
//!     codecs::Codecs,
//!     routing::{Body, Handler as _, Router},
//! };
//! use tower::timeout::TimeoutLayer;
//!
//! async fn created(Body(_id): Body<u64>) {}
//!
//! let router = Router::new(Codecs::json())
//!     .route("order.created", created.layer(TimeoutLayer::new(Duration::from_secs(5))))
//!     .build()?;
//! # let _ = router;
//! # Ok::<(), consign::BuildError>(())
//! ```
//!
//! A layer passes values to handlers by the [extensions](crate::Message::extensions) of the message: see [`Extension`].
//!
//! If an argument cannot be made from the message, the handler is not called, and the message is settled by the error. A
//! body that cannot be decoded is dead-lettered with the attempts, a missing property as `MissingProperty`.
//!
//! A handler of several message types takes an enum, and [`RouterBuilder::types`] adds it to the router: see
//! [`types`](crate::message_types).
//!
//! # Signed and encrypted messages
//!
//! [Signing](crate::middleware::signing) and [encryption](crate::middleware::encryption) authenticate the Subject, by which
//! routes are selected, and the ContentType. They do not authenticate these arguments of handlers: To, the partition key,
//! the times, the properties that the broker sets, and application properties that are not bound.
//!
//! # Borrowing from the body
//!
//! A handler's arguments are owned, so `Body<OrderRef<'_>>` cannot be one: the compiler reports that the implementation of
//! `OwnsItsData` is not general enough. Take the [`Payload`], which owns the message, and decode from it. The value lives as
//! long as the payload, also across awaits:
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
//!
//! # Performance
//!
//! The handler is found in a hash table, after a comparison with the name that was found before. So the cost hardly grows with
//! the number of routes. `cargo xtask bench --only erased` counts a message of two fields of JSON through a broker, a consumer and
//! a router, whose routes take turns:
//!
//! | router | instructions | allocations |
//! |---|---|---|
//! | 1 route | 1,799 | 0 |
//! | 50 routes | 2,053 | 0 |
//! | 1 route of [`Routes`] | 2,014 | 1 |
//! | 50 routes of [`Routes`] | 2,173 | 1 |
//! | 500 routes of [`Routes`] | 2,174 | 1 |
//!
//! Of [`Routes`], 500 take 1.08 times what one takes. One route takes less because its name is that of the message before, so
//! nothing is looked up.
//!
//! The allocation is the box of the handler's future. The compiler's limit of recursion allows a router about 50 routes outside of
//! [`Routes`].

mod check;
mod context;
mod describe;
mod extension;
mod extract;
mod handler;
mod layered;
mod lookup;
#[doc(hidden)]
pub mod private;
mod property;
mod route;
mod router;
mod routes;
mod state;
mod typed;
mod unknown;

pub(crate) use self::router::RouterFuture;
pub use self::{
    context::Context,
    describe::RouterDescription,
    extension::Extension,
    extract::{Body, FromMessage, NotReceived, Payload, RawBody},
    handler::Handler,
    property::{CorrelationId, MessageId, MissingProperty, ReplyTo, ReplyToSessionId, SessionId, Subject},
    router::{Router, RouterBuilder},
    routes::Routes,
    state::{FromRef, State},
    typed::Typed,
    unknown::{Forward, Ignore},
};
