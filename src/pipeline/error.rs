use std::{error, fmt};

use crate::{consumer::SettingsErrorKind, message_types::TypesErrorKind};

/// The rule that a pipeline breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PipelineErrorKind {
    /// A layer, or a part, belongs into a stack of the other side.
    WrongSide,
    /// A layer that is allowed once is added twice.
    DuplicateLayer,
    /// Two layers are in an order in which one of them does not work.
    LayerOrder,
    /// A setting of a layer is wrong.
    LayerSetting,
    /// A setting of the consumer is wrong.
    Consumer(SettingsErrorKind),
    /// Types are sent, and no layer encodes them.
    NoEncode,
    /// A table of types that are sent breaks a rule.
    Types(TypesErrorKind),
    /// An application property names the type or the version of a body, and a layer that signs, verifies, encrypts or
    /// decrypts does not bind it.
    NotBound,
}

/// A pipeline that is not built. `Display` states in one sentence what to change.
#[derive(Clone, PartialEq, Eq)]
pub struct PipelineError {
    kind: PipelineErrorKind,
    advice: Box<str>,
}

impl PipelineError {
    pub(super) fn new(kind: PipelineErrorKind, advice: impl Into<Box<str>>) -> Self {
        Self { kind, advice: advice.into() }
    }

    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> PipelineErrorKind {
        self.kind
    }
}

impl fmt::Display for PipelineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.advice)
    }
}

impl fmt::Debug for PipelineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PipelineError({:?}: {})", self.kind, self.advice)
    }
}

impl error::Error for PipelineError {}
