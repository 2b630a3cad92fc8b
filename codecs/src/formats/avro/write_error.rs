use std::{borrow::Cow, error, fmt};

use serde::ser;

use crate::{EncodeError, EncodeErrorKind};

/// A value that the schema has no place for, and the field that it is in.
#[derive(Debug)]
pub(crate) struct WriteError(Box<Refusal>);

#[derive(Debug)]
struct Refusal {
    kind: EncodeErrorKind,
    detail: Cow<'static, str>,
    /// The names of fields, from the outermost on.
    path: String,
    source: Option<Box<dyn error::Error + Send + Sync>>,
}

#[cold]
pub(super) fn refused(detail: impl Into<Cow<'static, str>>) -> WriteError {
    let (kind, detail) = (EncodeErrorKind::Unsupported, detail.into());
    WriteError(Box::new(Refusal { kind, detail, path: String::new(), source: None }))
}

impl WriteError {
    /// Adds the field that the value is in.
    #[cold]
    pub(super) fn in_field(mut self, name: &str) -> Self {
        let Refusal { path, .. } = &mut *self.0;
        *path = if path.is_empty() { name.to_owned() } else { format!("{name}.{path}") };
        self
    }

    #[cold]
    pub(super) fn into_inner(self) -> EncodeError {
        let Refusal { kind, detail, path, source } = *self.0;
        let error = EncodeError::new(kind);
        let error = match (detail.is_empty(), path.is_empty()) {
            (true, true) => error,
            (false, true) => error.with_detail(detail),
            (true, false) => error.with_detail(format!("at `{path}`")),
            (false, false) => error.with_detail(format!("{detail} at `{path}`")),
        };
        match source {
            Some(source) => error.with_source(source),
            None => error,
        }
    }
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.detail)
    }
}

impl error::Error for WriteError {}

impl ser::Error for WriteError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        let source = Some(message.to_string().into());
        Self(Box::new(Refusal { kind: EncodeErrorKind::Value, detail: "".into(), path: String::new(), source }))
    }
}
