//! A layer that validates JSON bodies against JSON Schemas before a handler gets them.
//!
//! ```
//! use consign::{
//!     Disposition, Message,
//!     middleware::json_schema::{JsonSchema, JsonSchemaLayer},
//! };
//! use serde_json::json;
//! use tower::{BoxError, ServiceBuilder, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), BoxError> {
//! let schema = JsonSchema::new(
//!     "order-v1",
//!     &json!({
//!         "$schema": "https://json-schema.org/draft/2020-12/schema",
//!         "type": "object",
//!         "properties": { "count": { "type": "integer", "minimum": 1 } },
//!         "required": ["id", "count"],
//!     }),
//! )?;
//! let stack = ServiceBuilder::new()
//!     .layer(JsonSchemaLayer::new(schema))
//!     .service(service_fn(async |_: Message| Ok::<_, BoxError>(Disposition::Complete)));
//!
//! assert_eq!(stack.clone().oneshot(Message::new(r#"{"id":7,"count":1}"#)).await?, Disposition::Complete);
//! let Disposition::DeadLetter(letter) = stack.oneshot(Message::new(r#"{"count":0}"#)).await? else { panic!() };
//! assert_eq!(letter.reason.as_str(), "DeserializationFailed");
//! assert_eq!(
//!     letter.description,
//!     "the body breaks the JSON Schema `order-v1`: required at the root; minimum at /count"
//! );
//! # Ok(())
//! # }
//! ```
//!
//! A schema is compiled once, by [`JsonSchema::new`], of any draft from 4 to 2020-12: that of its `$schema`, or 2020-12.
//!
//! # Failure
//!
//! A body that breaks its schema is dead-lettered as `DeserializationFailed`. The description names the schema, and for each
//! violation the keyword and the path of the value, as a JSON Pointer: at most
//! [`MAX_VIOLATIONS`](JsonSchema::MAX_VIOLATIONS), and 128 bytes of each path. No value of the body is in it. All violations are
//! looked for if the values of the body times the members and items of the schema, with those of its `$ref`s, are at most 32,768.
//! Otherwise, and if a schema refers to itself, the description has the first violation only. It has none then if the schema has
//! `anyOf`, `oneOf`, or a `$ref` to another document: the validator would collect those of each branch.
//!
//! A body that is not JSON, or nested deeper than 127, is dead-lettered with the same reason, and with line and column. One that is larger than
//! [`max_bytes`](JsonSchemaLayer::max_bytes) is dead-lettered as `LimitExceeded`. One with another ContentType is dead-lettered
//! as `UnsupportedContentType`; see [`allow_other_content_types`](JsonSchemaLayer::allow_other_content_types). A body without
//! a ContentType has to be JSON. A compressed body is dead-lettered as `UnsupportedEncoding`.
//!
//! # Untrusted input
//!
//! Schemas are part of the service. A `$ref` to another document is never fetched, and is an error when the schema is
//! compiled. Patterns run on an engine whose time is linear in the length of the text; one with look-around or
//! back-references is an error when the schema is compiled. `format` is an annotation, and is not checked.
//!
//! # Order
//!
//! Inside of the layers that decrypt and decompress, and outside of the router. To validate what one handler gets, make it a
//! [layer of that handler](crate::routing::Handler::layer).
//!
//! # Cost
//!
//! The body is parsed once more, into a tree, and validated. A tree of many small objects may be over 100 times as large as the
//! body. Other layers and the handler decode the bytes as without it.

mod error;
mod extent;
mod layer;
mod schema;

pub use self::{
    error::{SchemaViolation, SchemaViolations},
    layer::JsonSchemaLayer,
    schema::JsonSchema,
};
