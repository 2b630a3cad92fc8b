use std::{collections::HashMap, sync::Arc};

use consign_codecs::ContentType;
use tower_layer::Layer;

use super::{JsonSchema, SchemaViolations, error::ViolationsKind};
use crate::{
    Message, content_encoding,
    middleware::{Reader, Reading},
    pipeline::{Describe, LayerInfo, Side},
};

/// A layer that validates bodies; see the [module](super).
#[derive(Clone, Debug)]
pub struct JsonSchemaLayer {
    schemas: Arc<Schemas>,
    max_bytes: usize,
    allows_others: bool,
}

#[derive(Debug)]
enum Schemas {
    All(JsonSchema),
    BySubject(HashMap<Box<str>, JsonSchema>),
}

/// Those of the JSON codec, whose feature this layer does not need.
const MEDIA_TYPES: [&str; 4] = ["application/json", "text/json", "application/x-json", "text/x-json"];

/// Validates bodies; see the [module](super).
pub(super) type Validate<S> = Reading<S, JsonSchemaLayer>;

impl JsonSchemaLayer {
    /// Bytes that a body may have by default: 256 KiB.
    pub const MAX_BYTES: usize = 256 * 1_024;

    /// Validates all messages by one schema.
    #[must_use]
    pub fn new(schema: JsonSchema) -> Self {
        Self::with(Schemas::All(schema))
    }

    /// Validates the messages with exactly these Subjects. Others pass, so that the router decides.
    ///
    /// ```
    /// # use consign::middleware::json_schema::{JsonSchema, JsonSchemaLayer};
    /// # fn layer(order: JsonSchema, refund: JsonSchema) -> JsonSchemaLayer {
    /// JsonSchemaLayer::by_subject([("order.created", order), ("order.refunded", refund)])
    /// # }
    /// ```
    ///
    /// That agrees with the router for handlers that were added by
    /// [`route`](crate::routing::RouterBuilder::route). The router finds handlers of [message types](crate::message_types) and
    /// fallbacks by more than the Subject, which this layer does not know:
    ///
    /// | the router selects by | what this layer does | what to do |
    /// |---|---|---|
    /// | an alias of a type | passes it without validation, as any Subject without a schema | give the schema for the alias too |
    /// | an application property with the name of the type | passes it without validation, unless its Subject has a schema | a layer of the handler |
    /// | the version of a type | validates each version by the one schema of the Subject | a schema that accepts all versions, such as `anyOf` of them |
    /// | a fallback, or a prefix | passes it without validation | a layer of the handler |
    ///
    /// A [layer of the handler](crate::routing::Handler::layer) made by [`new`](Self::new) validates all messages that the
    /// handler gets, however the router has found it. For a handler of several types or versions, its schema has to accept the
    /// bodies of all.
    #[must_use]
    pub fn by_subject<N: Into<Box<str>>>(schemas: impl IntoIterator<Item = (N, JsonSchema)>) -> Self {
        Self::with(Schemas::BySubject(schemas.into_iter().map(|(subject, schema)| (subject.into(), schema)).collect()))
    }

    fn with(schemas: Schemas) -> Self {
        Self { schemas: Arc::new(schemas), max_bytes: Self::MAX_BYTES, allows_others: false }
    }

    /// Sets how many bytes a body may have, by default [`MAX_BYTES`](Self::MAX_BYTES).
    #[must_use]
    pub fn max_bytes(mut self, bytes: usize) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// Passes messages with a ContentType other than JSON on without validation. Every sender can then leave out the
    /// validation, by another ContentType that the codecs read.
    #[must_use]
    pub fn allow_other_content_types(mut self) -> Self {
        self.allows_others = true;
        self
    }

    /// Validates a message.
    ///
    /// # Errors
    ///
    /// If its body does not pass.
    pub fn validate(&self, message: &Message) -> Result<(), SchemaViolations> {
        let schema = match &*self.schemas {
            Schemas::All(schema) => schema,
            Schemas::BySubject(schemas) => match message.subject().and_then(|subject| schemas.get(subject)) {
                Some(schema) => schema,
                None => return Ok(()),
            },
        };
        let refused = |kind| Err(SchemaViolations::new(schema.name(), kind));
        if !is_json(message.content_type()) {
            return if self.allows_others { Ok(()) } else { refused(ViolationsKind::ContentType) };
        }
        if content_encoding::encoding_of(message).is_some() {
            return refused(ViolationsKind::Encoded);
        }
        match message.payload() {
            Some(body) if body.len() > self.max_bytes => refused(ViolationsKind::TooLarge),
            Some(body) => schema.validate(body),
            None if self.allows_others => Ok(()),
            None => refused(ViolationsKind::NotBytes),
        }
    }
}

/// Whether the JSON codec reads it. Without a ContentType it does.
fn is_json(content_type: Option<&str>) -> bool {
    let Some(text) = content_type.filter(|text| !text.trim().is_empty()) else { return true };
    let declared = ContentType::parse(text);
    declared.suffix() == Some("json") || declared.essence().is_some_and(|essence| MEDIA_TYPES.contains(&essence))
}

impl<S> Layer<S> for JsonSchemaLayer {
    type Service = Validate<S>;

    fn layer(&self, inner: S) -> Validate<S> {
        Reading::new(inner, self.clone())
    }
}

impl Reader for JsonSchemaLayer {
    type Error = SchemaViolations;

    fn read(&self, message: Message) -> Result<Message, SchemaViolations> {
        self.validate(&message).map(|()| message)
    }
}

impl Describe for JsonSchemaLayer {
    fn info(&self) -> LayerInfo {
        let why = "bytes that are encrypted, compressed or elsewhere are validated";
        let envelope = "the envelope is validated, and not the body in it";
        let info = LayerInfo::new("json_schema")
            .only(Side::Receiving)
            .inside_of("verify", why)
            .inside_of("decrypt", why)
            .inside_of("decompress", why)
            .inside_of("check_out", why)
            .inside_of("masstransit", envelope)
            .inside_of("nservicebus", envelope)
            .setting("max_bytes", self.max_bytes);
        match &*self.schemas {
            Schemas::All(schema) => info.setting("schema", schema.name()),
            Schemas::BySubject(schemas) => {
                let mut all: Vec<_> =
                    schemas.iter().map(|(subject, schema)| format!("{subject} by {}", schema.name())).collect();
                all.sort_unstable();
                info.setting("schemas", all.join(", "))
            }
        }
    }
}
