//! Message types: an enum of the types that an endpoint receives or sends, their names, and conversions from old versions
//! of a body to the newest.
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
//!     message_types::MessageTypes,
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
//! Without it, implement the traits by hand: [`MessageTypes`] is a constant table, [`ReceiveTypes`] and [`SendTypes`] have
//! a `match` each. The page of the derive macro lists its attributes.
//!
//! # The name of a type
//!
//! The Subject has the name, or an application property that the enum selects. The name is any text that producers in all
//! languages agree on, never a path of this program. It is looked up in a table that is fixed at compile time: **nothing is
//! loaded, found or created by a name in a message**. Aliases are received and never sent.
//!
//! # Versions
//!
//! The version of a body is a whole number, from 1 upwards, or its text. It is in the application property
//! [`x-message-version`](TypeTable::VERSION_PROPERTY), or in one that the enum selects. A message without it has the first
//! version of its type. A body is decoded as the type of its version, and converted by each step up to the newest, so a
//! handler gets only the newest version. The steps are types: a missing one does not compile. A gap, a repetition or a
//! decrease of their numbers is a [`BuildError`](crate::BuildError) when the router is built.
//!
//! For a type without versions the property is ignored. If no property has the version, use
//! [`OneOf`](crate::codecs::OneOf), which tries several types in order.
//!
//! # Signed and encrypted messages
//!
//! [Signing](crate::middleware::signing) and [encryption](crate::middleware::encryption) authenticate the Subject and
//! `x-message-version`, so the version of a body cannot be changed. Another property that the enum selects is not
//! authenticated by default: bind it by name on both sides, which a [pipeline](crate::pipeline) requires.
//!
//! # Messages of other types
//!
//! | the message has | result |
//! |---|---|
//! | no type, or one that the router does not have | that of [`fallback`](crate::routing::RouterBuilder::fallback), or a dead letter, `UnknownMessageType` |
//! | a version that its type does not have, or an invalid version | a dead letter, `UnknownMessageType` |
//! | a body that cannot be decoded as its type, such as an empty one where the type is not text, `Raw` or protobuf | a dead letter with the attempts |
//! | a body for which a step fails or panics | a dead letter, `DeserializationFailed`, that names the step, with the text of its error; it should not quote the value |
//!
//! To ignore other types, or to forward them, use [`Ignore`](crate::routing::Ignore) or
//! [`Forward`](crate::routing::Forward).
//!
//! # Dead letters of an older version
//!
//! Steps run when a message is received. A message that was dead-lettered for an unknown or undecodable version is
//! resubmitted unchanged once the step exists. Its body and its version stay as they were sent, so a run of
//! [`dead_letters`](crate::dead_letters) does not depend on the types.

mod check;
mod error;
mod receive;
mod send;
mod table;

#[cfg(feature = "derive")]
pub use consign_derive::MessageTypes;

use self::table::Resolved;
pub(crate) use self::{error::no_handler, receive::read_as};
pub use self::{
    error::{TypeError, TypeErrorKind},
    receive::{Incoming, MessageTypes, ReceiveTypes, Steps, read},
    send::{AsType, Outlet, SendTypes},
    table::{MessageType, TypeTable},
};
