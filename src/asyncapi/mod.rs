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
//! | `name` | the subject, or the name of the type; `x-aliases` has other names |
//! | `contentType` | the codec of the type, else that of the entity, else the first codec; `x-content-types` has all media types that the codecs read, with patterns such as `*/*+json`. A type with a format of its own is not told apart |
//! | `headers` | the application properties that have the type and the version |
//! | `payload` | the schema that was registered for the name of the message at this destination, or else for the name, of JSON Schema draft 7 |
//!
//! A router with a fallback has the further message [`OTHER`](AsyncApi::OTHER). A message without a schema has no `payload`,
//! so types without `JsonSchema` need nothing. A [`Responder`](crate::rpc::Responder) that is passed to
//! [`Pipeline::router`](crate::pipeline::Pipeline::router) has its requests in the document, and not its replies: they have no
//! names. Layers, limits and keys are not in the document:
//! [`PipelineDescription`](crate::pipeline::PipelineDescription) has the first two.

mod builder;
mod channel;

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
