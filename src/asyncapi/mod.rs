//! An AsyncAPI 3.0 document of a service, from the descriptions of its pipelines.
//!
//! ```
//! # #[cfg(feature = "json")] {
//! use consign::{
//!     asyncapi::AsyncApi,
//!     codecs::Codecs,
//!     pipeline::Pipeline,
//!     routing::{Body, Router},
//! };
//! use schemars::JsonSchema;
//! use serde::Deserialize;
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Order {
//!     id: u64,
//!     note: Option<String>,
//! }
//!
//! async fn created(Body(_order): Body<Order>) {}
//! async fn cancelled(Body(_id): Body<u64>) {}
//!
//! let router =
//!     Router::new(Codecs::json()).route("order.created", created).route("order.cancelled", cancelled).build()?;
//! let pipeline = Pipeline::receiving("orders").router(router)?;
//!
//! let document = AsyncApi::new("Warehouse", "1.4.0")
//!     .server("production", "rabbitmq.example:5671", "amqps")
//!     .pipeline(pipeline.describe())
//!     .schema::<Order>("order.created")
//!     .build()?;
//! let value = document.as_value();
//! assert_eq!(value["asyncapi"], "3.0.0");
//! assert_eq!(value["operations"]["receive.orders"]["action"], "receive");
//! let message = &value["channels"]["orders"]["messages"]["order.created"];
//! assert_eq!(message["contentType"], "application/json");
//! assert_eq!(message["payload"]["$ref"], "#/components/schemas/Order");
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Contents
//!
//! | in the document | from |
//! |---|---|
//! | a channel | the [destination](crate::pipeline::Pipeline::destination) of a pipeline, or its name; pipelines of one destination share it |
//! | an operation, `receive` or `send` | a pipeline |
//! | the messages of an operation | the subjects of the router, the types of its handlers, and the types that are sent |
//! | `name` | the subject, or the name of the type; `x-aliases` has the other names of a type that is received |
//! | `contentType` | the codec of the type, else that of the entity, else the first codec; `x-content-types` has all media types that the codecs read and `allow` allows, with patterns such as `*/*+json`. A type with a format of its own is not told apart |
//! | `headers` | the application properties that have the type and the version: those of a body of the newest version |
//! | `x-versions` | the versions of a type that are received, if there are several |
//! | `payload` | the schema that was registered for the name of the message at this destination, or else for the name, of JSON Schema draft 7 |
//! | `components.schemas` | the types that payloads refer to. A character that a key cannot have is `_`, and of two types with one key the second has `.2` |
//! | `reply` of an operation | a [`Responder`](crate::rpc::Responder) that was passed to [`Pipeline::router`](crate::pipeline::Pipeline::router) |
//!
//! # Types and versions
//!
//! The schema of a type is that of the bodies that serde reads, for a message that is received. For one that is sent, and for a
//! reply, it is that of the bodies that serde writes. They differ for `#[serde(rename(serialize = "..."))]`, `default`,
//! `skip_deserializing` and the like; then a type of both directions has two schemas.
//!
//! A `payload` is that of the newest version. A message that is received without the property of the version has the first
//! version, so the property is required where a type has several. The older versions are in `x-versions`, without a schema. A
//! message that is sent has the name and the newest version, so both are a `const`, and it has no aliases.
//!
//! A message that is received has a `contentType` and `x-content-types` that the consumer accepts by `allow` and `on_not_allowed` of
//! its codecs: `contentType` is that of the first codec for which `allow` lists it, if the one above is not listed. A type that it
//! reads only by `on_unknown` is missing.
//!
//! A router with a fallback has the further message [`OTHER`](AsyncApi::OTHER). A message without a schema has no `payload`,
//! so types without `JsonSchema` need nothing. Layers, limits and keys are not in the document:
//! [`PipelineDescription`](crate::pipeline::PipelineDescription) has the first two.
//!
//! # Replies
//!
//! The `reply` of a responder has a channel without an address: each request has that of its reply, in ReplyTo. The messages of
//! this channel are:
//!
//! | message | contents |
//! |---|---|
//! | `NAME.reply` for each request that is answered | `x-request`, the name of the request; `contentType`, that of the first codec; `x-content-types`, all that the codecs write; `payload`, the schema that was registered by [`AsyncApi::reply`] |
//! | `fault` | the application properties of a [`Fault`](crate::rpc::Fault), and the ContentType of its body if it has one |
//!
//! A reply is written in the format that the property `x-accept` of its request prefers, else in the format of the request, else
//! by the first codec. With several formats, `headers` of the request has `x-accept`. In `$message.header#/replyTo`,
//! `messageId` and `correlationId`, the names are those of properties of the message, not of application properties.
//!
//! ```
//! # #[cfg(feature = "json")] {
//! use consign::{
//!     Message,
//!     asyncapi::AsyncApi,
//!     codecs::Codecs,
//!     message::EntityPath,
//!     pipeline::Pipeline,
//!     routing::Body,
//!     rpc::{Reply, Responder},
//!     transport::SendError,
//! };
//! # use tower::service_fn;
//!
//! async fn price(Body(_sku): Body<String>) -> Reply<u32> {
//!     Reply(499)
//! }
//!
//! # let senders = |_: &EntityPath| Ok(service_fn(async |_: Message| Ok::<_, SendError>(())));
//! let responder = Responder::builder(senders).codecs(Codecs::json()).answer("price.get", price).build()?;
//! let pipeline = Pipeline::receiving("prices").router(responder)?;
//!
//! let document = AsyncApi::new("Prices", "1.0.0")
//!     .pipeline(pipeline.describe())
//!     .schema::<String>("price.get")
//!     .reply::<u32>("price.get")
//!     .build()?;
//! let reply = &document.as_value()["channels"]["prices.replies"]["messages"]["price.get.reply"];
//! assert_eq!(reply["payload"]["type"], "integer");
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The operation of a sending pipeline has no `reply`: a [`Requester`](crate::rpc::Requester) is around the pipeline, which does
//! not know it. A message of a router without a responder has none either, also if its handler sends one itself.

mod builder;
mod channel;
mod definitions;
mod keys;
mod reply;
mod schemas;

use std::fmt;

pub use self::builder::AsyncApi;

/// An AsyncAPI 3.0.0 document. `Display` and serde write it as JSON.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[serde(transparent)]
pub struct AsyncApiDocument(serde_json::Value);

impl AsyncApiDocument {
    /// Returns the document as a value.
    #[must_use]
    pub fn as_value(&self) -> &serde_json::Value {
        &self.0
    }

    /// Returns the document as a value.
    #[must_use]
    pub fn into_value(self) -> serde_json::Value {
        self.0
    }
}

/// Indented JSON.
impl fmt::Display for AsyncApiDocument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#}", self.0)
    }
}
