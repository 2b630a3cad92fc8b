//! Types of messages: an enum of those that an endpoint takes or sends, their names, and the steps from old versions of a body
//! to the newest.
//!
//! With the feature `derive`:
//!
//! ```
//! # #[cfg(all(feature = "derive", feature = "json"))] {
//! use consign::{
//!     Disposition, Message,
//!     codecs::Codecs,
//!     routing::{Router, State},
//!     settlement::Transient,
//!     types::MessageTypes,
//! };
//! use serde::{Deserialize, Serialize};
//! use tower::ServiceExt;
//!
//! #[derive(MessageTypes)]
//! enum Event {
//!     #[message("order.created", alias = "OrderCreated", version = 2, from(1 = CreatedV1))]
//!     Created(Created),
//!     #[message("order.shipped")]
//!     Shipped(u64),
//!     #[message("shop.closed")]
//!     Closed,
//! }
//!
//! #[derive(Deserialize)]
//! struct CreatedV1 {
//!     id: u64,
//! }
//!
//! #[derive(Serialize, Deserialize)]
//! struct Created {
//!     id: u64,
//!     currency: String,
//! }
//!
//! impl From<CreatedV1> for Created {
//!     fn from(old: CreatedV1) -> Self {
//!         Self { id: old.id, currency: "EUR".into() }
//!     }
//! }
//!
//! async fn handle(event: Event) -> Result<(), Transient> {
//!     match event {
//!         Event::Created(order) => println!("{} in {}", order.id, order.currency),
//!         Event::Shipped(id) => println!("{id} is on its way"),
//!         Event::Closed => println!("closed"),
//!     }
//!     Ok(())
//! }
//!
//! # tokio_test::block_on(async {
//! let router = Router::new(Codecs::json()).types(handle).build()?;
//! // Of the first version, under the name that its producer knows.
//! let old = Message::builder().subject("OrderCreated").build(r#"{"id":7}"#)?;
//! assert_eq!(router.oneshot(old).await?, Disposition::Complete);
//! # Ok::<(), tower::BoxError>(())
//! # }).unwrap();
//! # }
//! ```
//!
//! Without it the traits are written by hand: [`MessageTypes`] is a constant table, [`ReceiveTypes`] and [`SendTypes`] have a
//! `match` each. What the derive takes is on the page of its macro.
//!
//! # Where a message names its type
//!
//! In the Subject, or in an application property of the enum's choice. The name is any text that producers in all
//! languages agree on, never a path of this program. It is looked up in a table that is fixed at compile time:
//! **nothing is loaded, found or created by a name that came with a message**. Other names are received and never sent.
//!
//! # Versions
//!
//! The version of a body is a whole number, from 1 upwards, in the application property
//! [`x-message-version`](TypeTable::VERSION_PROPERTY), or in one of the enum's choice; as text it is read too. A message
//! without it is of the first version that the type has. A body is read as the type of its version, and goes through every
//! step up to the newest, so a handler knows one version only. The steps are types: a missing one does not compile, and a
//! gap, a repetition or a step back in their numbers is refused when the router is built, as [`TypesError`].
//!
//! A type without versions does not look at the property. Where nothing says the version, not even the first can be assumed:
//! a body of several types that try in order is [`OneOf`](crate::codecs::OneOf).
//!
//! # Signed and encrypted messages
//!
//! [Signing](crate::middleware::signing) and [encryption](crate::middleware::encryption) authenticate the Subject and
//! `x-message-version`, so a body of one version cannot be made one of another. Another property of the enum's choice is not
//! authenticated by itself: bind it by name on both sides, which a [pipeline](crate::pipeline) insists on.
//!
//! # Messages of other types
//!
//! | the message | becomes |
//! |---|---|
//! | says no type, or one that the router has not | what [`otherwise`](crate::routing::RouterBuilder::otherwise) does, or a dead letter, `UnknownMessageType` |
//! | says a version that its type has not, or what is no version | a dead letter, `UnknownMessageType` |
//! | has a body that its type cannot be read from, as an empty one | a dead letter with what was tried |
//! | has a body that a step refuses, or panics at | a dead letter, `DeserializationFailed`, that names the step |
//!
//! To ignore other types, or to forward them, use [`Ignore`](crate::routing::Ignore) or
//! [`Forward`](crate::routing::Forward).
//!
//! # Dead letters of an older version
//!
//! Steps run when a message is received, whatever its sender. A message that was dead-lettered for an unknown or
//! unreadable version is resubmitted unchanged once the step exists. Its body and its version stay those that it was
//! sent with, so a run of [`dead_letters`](crate::dead_letters) does not depend on the types.

mod check;
mod error;
mod receive;
mod send;
mod table;

#[cfg(feature = "derive")]
pub use consign_derive::MessageTypes;

use self::table::Resolved;
pub use self::{
    check::{TypesError, TypesErrorKind},
    error::{TypeError, TypeErrorKind},
    receive::{Incoming, MessageTypes, ReceiveTypes, Steps, read},
    send::{AsType, Outlet, SendTypes},
    table::{MessageType, TypeTable},
};
pub(crate) use self::{error::nobody_takes, receive::read_as};
