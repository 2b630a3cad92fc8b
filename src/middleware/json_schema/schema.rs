use std::{fmt, sync::Arc};

use jsonschema::{PatternOptions, ValidationError, Validator};
use serde_json::Value;

use super::{
    SchemaViolation, SchemaViolations,
    error::{MAX_VIOLATIONS, ViolationsKind},
    extent::checks,
};
use crate::{BuildError, BuildErrorKind};

/// A compiled JSON Schema, and its name. A clone is a reference count.
#[derive(Clone)]
pub struct JsonSchema(Arc<Compiled>);

struct Compiled {
    name: Box<str>,
    validator: Validator,
    /// How many values a body may have, so that all of its violations are looked for.
    most_values: usize,
    /// Whether the validator stops at the first violation. With `anyOf` or `oneOf` it collects those of each branch.
    stops_at_first: bool,
}

/// Values of a body times checks of a schema up to which all violations are looked for. The validator has all in memory at
/// once, over 300 bytes for each. In a schema that refers to itself, `oneOf` may multiply them at each level of a body.
const MAX_CHECKS: usize = 1 << 15;

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
            Ok(validator) => {
                let most_values = checks(schema, MAX_CHECKS).map_or(0, |checks| MAX_CHECKS / checks.max(1));
                let stops_at_first = !has_branches(schema);
                Ok(Self(Arc::new(Compiled { name, validator, most_values, stops_at_first })))
            }
            Err(error) => {
                let advice = format!("the JSON Schema `{name}` cannot be compiled");
                Err(BuildError::new(BuildErrorKind::JsonSchema, advice).named(&name).caused_by(error))
            }
        }
    }

    /// Compiles the schema of a type. schemars does not read serde's `alias` and `other`, so the schema refuses bodies that only
    /// these accept. Use [`new`](Self::new) for such a type.
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
        let text = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
        match serde_json::from_slice(text) {
            Ok(value) => self.validate_value(&value),
            Err(error) => {
                // As the JSON codec counts: the first byte is in column 1, and a byte order mark has three of the first line.
                let mark = if error.line() == 1 { body.len() - text.len() } else { 0 };
                let kind = ViolationsKind::NotJson { line: error.line(), column: error.column().max(1) + mark };
                Err(SchemaViolations::new(self.name(), kind))
            }
        }
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
        let violation =
            |error: ValidationError<'_>| SchemaViolation::new(error.instance_path().as_str(), error.kind().keyword());
        if count_values(value, self.0.most_values).is_none() {
            let first = if self.0.stops_at_first { self.0.validator.validate(value).err() } else { None };
            return Err(SchemaViolations::large(self.name(), first.map(violation)));
        }
        // One more, to say that there are more.
        let errors = self.0.validator.iter_errors(value).take(Self::MAX_VIOLATIONS + 1);
        Err(SchemaViolations::broken(self.name(), errors.map(violation).collect()))
    }
}

/// The values in a value, with itself. `None` if there are more than `most`.
fn count_values(value: &Value, most: usize) -> Option<usize> {
    let add = |count: usize, part: &Value| Some(count + count_values(part, most.checked_sub(count)?)?);
    let count = match value {
        Value::Array(items) => items.iter().try_fold(1, add)?,
        Value::Object(members) => members.values().try_fold(1, add)?,
        _ => 1,
    };
    (count <= most).then_some(count)
}

/// Whether a keyword of the schema, or of another document that it refers to, has several schemas of which one has to accept
/// the value. A property of that name counts too, which is harmless.
fn has_branches(schema: &Value) -> bool {
    match schema {
        Value::Array(items) => items.iter().any(has_branches),
        Value::Object(members) => members.iter().any(|(keyword, value)| match &**keyword {
            "anyOf" | "oneOf" => true,
            "$ref" | "$dynamicRef" | "$recursiveRef" => value.as_str().is_none_or(|target| !target.starts_with('#')),
            _ => has_branches(value),
        }),
        _ => false,
    }
}

impl fmt::Debug for JsonSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JsonSchema").field("name", &self.0.name).finish_non_exhaustive()
    }
}
