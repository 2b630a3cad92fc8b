use std::{error, fmt};

use crate::{
    Disposition,
    settlement::{DeadLetterReason, IntoDisposition},
};

/// Why a body does not pass its schema. As a [`Disposition`] it is a dead letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaViolations {
    name: Box<str>,
    kind: ViolationsKind,
    violations: Vec<SchemaViolation>,
    has_more: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ViolationsKind {
    /// The body breaks the schema.
    Broken,
    /// The body breaks the schema, and looking for each violation would take too long.
    Large,
    /// The body is not JSON, or is nested too deeply. Lines and columns count from 1.
    NotJson { line: usize, column: usize },
    /// The body is an AMQP sequence, or a value that is not bytes.
    NotBytes,
    /// The body is compressed.
    Encoded,
    /// The body is larger than the layer allows.
    TooLarge,
    /// The ContentType is not one of JSON.
    ContentType,
}

/// One violation of a schema.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct SchemaViolation {
    /// The path of the value in the body, as a JSON Pointer: empty for the body itself. It is escaped as in a Rust string,
    /// and cut to 128 bytes.
    pub path: String,
    /// The keyword of the schema.
    pub keyword: String,
}

/// Violations of one body that are kept.
pub(super) const MAX_VIOLATIONS: usize = 8;
/// Bytes of a path or a keyword that are kept.
const PATH: usize = 128;
const ELLIPSIS: &str = "...";

impl SchemaViolation {
    pub(super) fn new(path: &str, keyword: &str) -> Self {
        Self { path: cut(path), keyword: cut(keyword) }
    }
}

/// The path has the names of members, which a sender chooses.
fn cut(text: &str) -> String {
    let (mut kept, mut before_ellipsis) = (String::new(), 0);
    for escaped in text.chars().map(char::escape_debug) {
        kept.extend(escaped);
        if kept.len() > PATH {
            kept.truncate(before_ellipsis);
            kept.push_str(ELLIPSIS);
            break;
        }
        if kept.len() + ELLIPSIS.len() <= PATH {
            before_ellipsis = kept.len();
        }
    }
    kept
}

impl SchemaViolations {
    #[cold]
    pub(super) fn new(name: &str, kind: ViolationsKind) -> Self {
        Self { name: name.into(), kind, violations: Vec::new(), has_more: false }
    }

    /// A body of so many values that at most its first violation is known.
    #[cold]
    pub(super) fn large(name: &str, first: Option<SchemaViolation>) -> Self {
        Self {
            name: name.into(),
            kind: ViolationsKind::Large,
            violations: first.into_iter().collect(),
            has_more: false,
        }
    }

    #[cold]
    pub(super) fn broken(name: &str, mut violations: Vec<SchemaViolation>) -> Self {
        let has_more = violations.len() > MAX_VIOLATIONS;
        violations.truncate(MAX_VIOLATIONS);
        // The validator has them in an order of its own.
        violations.sort_unstable();
        Self { name: name.into(), kind: ViolationsKind::Broken, violations, has_more }
    }

    /// Returns the code under which the message is dead-lettered.
    #[must_use]
    pub fn reason(&self) -> DeadLetterReason {
        match self.kind {
            ViolationsKind::TooLarge => DeadLetterReason::LimitExceeded,
            ViolationsKind::Encoded => DeadLetterReason::UnsupportedEncoding,
            ViolationsKind::ContentType => DeadLetterReason::UnsupportedContentType,
            _ => DeadLetterReason::DeserializationFailed,
        }
    }

    /// Returns the name of the schema.
    #[must_use]
    pub fn schema(&self) -> &str {
        &self.name
    }

    /// Returns the violations, by path: at most [`JsonSchema::MAX_VIOLATIONS`](super::JsonSchema::MAX_VIOLATIONS). Of a large
    /// body, or by a schema that refers to itself, it is the first one that was found; or none, if the schema has `anyOf`,
    /// `oneOf`, or a `$ref` to another document. The [module](super#failure) has the limit.
    #[must_use]
    pub fn violations(&self) -> &[SchemaViolation] {
        &self.violations
    }

    /// Whether there are more violations. It is not known, and `false`, if at most the first one was looked for.
    #[must_use]
    pub fn has_more(&self) -> bool {
        self.has_more
    }
}

impl fmt::Display for SchemaViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.path.is_empty() { "the root" } else { &self.path };
        write!(f, "{} at {path}", self.keyword)
    }
}

impl fmt::Display for SchemaViolations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, kind, violations, has_more } = self;
        match kind {
            ViolationsKind::Broken => write!(f, "the body breaks the JSON Schema `{name}`")?,
            ViolationsKind::Large if violations.is_empty() => {
                write!(
                    f,
                    "the body breaks the JSON Schema `{name}`, and looking for each violation would take too long"
                )?;
            }
            ViolationsKind::Large => write!(f, "the body breaks the JSON Schema `{name}`, first")?,
            ViolationsKind::NotJson { line, column } => {
                let place = format_args!("line {line}, column {column}");
                write!(f, "the body is not JSON at {place}, and has to match the JSON Schema `{name}`")?;
            }
            ViolationsKind::NotBytes => {
                write!(f, "the body is an AMQP value or sequence, and has to match the JSON Schema `{name}`")?;
            }
            ViolationsKind::Encoded => {
                write!(f, "the body has a content encoding, and has to match the JSON Schema `{name}` without it")?;
            }
            ViolationsKind::TooLarge => write!(f, "the body is too large to be validated by the JSON Schema `{name}`")?,
            ViolationsKind::ContentType => {
                write!(f, "the ContentType is not one of JSON, and the body has to match the JSON Schema `{name}`")?;
            }
        }
        for (at, violation) in violations.iter().enumerate() {
            write!(f, "{} {violation}", if at == 0 { ':' } else { ';' })?;
        }
        if *has_more { f.write_str("; and more") } else { Ok(()) }
    }
}

impl error::Error for SchemaViolations {}

impl IntoDisposition for SchemaViolations {
    #[cold]
    fn into_disposition(self) -> Disposition {
        Disposition::dead_letter(self.reason(), self.to_string())
    }
}
