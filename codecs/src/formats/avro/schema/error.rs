use std::{error, fmt};

/// The kind of an [`AvroSchemaError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AvroSchemaErrorKind {
    /// The text is not JSON, or nested deeper than 128.
    Syntax,
    /// A type is neither a name, an object with a `type`, nor an array.
    Type,
    /// A name is not one: letters, digits and `_`, with dots between the parts of a full name.
    Name,
    /// A type, a field or a symbol has the name of another.
    DuplicateName,
    /// A name is that of no type before it.
    UnknownName,
    /// An attribute that the type needs is missing, or is not of its kind.
    Attribute,
    /// A union has another union, or two types that a value cannot tell apart, as a branch.
    Union,
    /// The default of a field is not a value of its type.
    Default,
}

/// A text is not a schema of Avro. The error has the path of the part that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AvroSchemaError {
    kind: AvroSchemaErrorKind,
    path: String,
}

impl AvroSchemaError {
    #[cold]
    pub(super) fn new(kind: AvroSchemaErrorKind, path: impl Into<String>) -> Self {
        Self { kind, path: path.into() }
    }

    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> AvroSchemaErrorKind {
        self.kind
    }

    /// Returns where in the schema it is, as a JSON Pointer: `/fields/1/type`. Empty for the schema itself.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }
}

impl fmt::Display for AvroSchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            AvroSchemaErrorKind::Syntax => "the schema is not JSON",
            AvroSchemaErrorKind::Type => "not a type of Avro",
            AvroSchemaErrorKind::Name => "not a name of Avro",
            AvroSchemaErrorKind::DuplicateName => "a name occurs twice",
            AvroSchemaErrorKind::UnknownName => "the name of no type before it",
            AvroSchemaErrorKind::Attribute => "an attribute is missing, or is not of its kind",
            AvroSchemaErrorKind::Union => "a union with another union, or with two branches of one kind",
            AvroSchemaErrorKind::Default => "the default is not a value of its type",
        })?;
        if self.path.is_empty() { Ok(()) } else { write!(f, " at {}", self.path) }
    }
}

impl error::Error for AvroSchemaError {}
