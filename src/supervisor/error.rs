use std::{error, fmt, sync::Arc};

use tower::BoxError;

/// The error of a supervisor.
#[derive(Debug)]
pub struct SupervisorError {
    kind: SupervisorErrorKind,
    parts: Vec<Arc<str>>,
    source: Option<BoxError>,
}

/// Why a supervisor returned an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SupervisorErrorKind {
    /// A part has failed for good. The source of the error is that of the part. The health shows whether others were aborted.
    PartFailed,
    /// Parts had not ended at the drain timeout, or when a signal came during the drain, and were aborted. No part has failed.
    DrainTimeout,
    /// The process cannot listen to its signals. Nothing was started.
    Signal,
}

impl SupervisorError {
    pub(super) fn part_failed(part: Arc<str>, error: BoxError) -> Self {
        Self { kind: SupervisorErrorKind::PartFailed, parts: vec![part], source: Some(error) }
    }

    pub(super) fn drain_timeout(parts: Vec<Arc<str>>) -> Self {
        Self { kind: SupervisorErrorKind::DrainTimeout, parts, source: None }
    }

    #[cfg(feature = "signal")]
    pub(super) fn signal(error: std::io::Error) -> Self {
        Self { kind: SupervisorErrorKind::Signal, parts: Vec::new(), source: Some(error.into()) }
    }

    /// Returns why it failed.
    #[must_use]
    pub fn kind(&self) -> SupervisorErrorKind {
        self.kind
    }

    /// Returns the name of the part that failed, or of those that were aborted.
    pub fn parts(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().map(|part| &**part)
    }
}

impl fmt::Display for SupervisorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.parts.join("`, `");
        match self.kind {
            SupervisorErrorKind::PartFailed => write!(f, "the part `{names}` failed for good"),
            SupervisorErrorKind::DrainTimeout => {
                write!(
                    f,
                    "these parts had not ended at the drain timeout, or at a further signal, and were aborted: `{names}`"
                )
            }
            SupervisorErrorKind::Signal => f.write_str("the process cannot listen to its signals"),
        }
    }
}

impl error::Error for SupervisorError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}
