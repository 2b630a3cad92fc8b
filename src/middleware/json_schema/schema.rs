use std::{fmt, sync::Arc};

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

use super::{
    SchemaViolation, SchemaViolations,
    error::{MAX_VIOLATIONS, ViolationsKind},
};
use crate::{BuildError, BuildErrorKind};

/// A compiled JSON Schema, and its name. A clone is a reference count.
#[derive(Clone)]
pub struct JsonSchema(Arc<Compiled>);

struct Compiled {
    name: Box<str>,
    validator: Validator,
}

impl JsonSchema {
    /// The number of violations that are reported of one body.
    pub const MAX_VIOLATIONS: usize = MAX_VIOLATIONS;

    /// Compiles `schema`. The `name` is for people, who find it in dead letters.
    ///
    /// # Errors
    ///
    /// If it is not a valid schema of its draft, if a `$ref` leads to another document, or if a pattern needs back-references
    /// or look-around.
    pub fn new(name: impl Into<Box<str>>, schema: &Value) -> Result<Self, BuildError> {
        let name = name.into();
        let options = jsonschema::options().offline().should_validate_formats(false);
        match options.with_pattern_options(PatternOptions::regex()).build(schema) {
            Ok(validator) => Ok(Self(Arc::new(Compiled { name, validator }))),
            Err(error) => {
                let advice = format!("the JSON Schema `{name}` cannot be compiled");
                Err(BuildError::new(BuildErrorKind::JsonSchema, advice).named(&name).caused_by(error))
            }
        }
    }

    /// Compiles the schema of a type.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    #[cfg(feature = "asyncapi")]
    pub fn of<T: schemars::JsonSchema>() -> Result<Self, BuildError> {
        Self::new(T::schema_name().into_owned(), schemars::schema_for!(T).as_value())
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Validates a body.
    ///
    /// # Errors
    ///
    /// If it is not JSON, or breaks the schema.
    pub fn validate(&self, body: &[u8]) -> Result<(), SchemaViolations> {
        let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
        let Ok(value) = serde_json::from_slice(body) else {
            return Err(SchemaViolations::new(self.name(), ViolationsKind::NotJson));
        };
        self.validate_value(&value)
    }

    /// Validates a value.
    ///
    /// # Errors
    ///
    /// If it breaks the schema.
    pub fn validate_value(&self, value: &Value) -> Result<(), SchemaViolations> {
        if self.0.validator.is_valid(value) {
            return Ok(());
        }
        // One more, to say that there are more.
        let errors = self.0.validator.iter_errors(value).take(Self::MAX_VIOLATIONS + 1);
        let violations =
            errors.map(|error| SchemaViolation::new(error.instance_path().as_str(), error.kind().keyword()));
        Err(SchemaViolations::broken(self.name(), violations.collect()))
    }
}

impl fmt::Debug for JsonSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JsonSchema").field("name", &self.0.name).finish_non_exhaustive()
    }
}
