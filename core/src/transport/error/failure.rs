use std::{borrow::Cow, error, fmt, sync::LazyLock};

use super::{ErrorKind, condition, tracking};
use crate::time::Timestamp;

pub(super) type BoxError = Box<dyn error::Error + Send + Sync>;

/// What is behind the pointer of every operation's error.
pub(super) struct Failure {
    pub(super) kind: ErrorKind,
    detail: Detail,
    pub(super) source: Option<BoxError>,
    pub(super) condition: Option<Cow<'static, str>>,
    pub(super) timestamp: Option<Timestamp>,
    pub(super) retryable: Option<bool>,
}

enum Detail {
    None,
    Text(Cow<'static, str>),
    /// Written when it is read: most errors are matched on and never shown.
    Late(LazyLock<String, Box<dyn FnOnce() -> String + Send + Sync>>),
}

impl Detail {
    fn get(&self) -> Option<&str> {
        match self {
            Self::None => None,
            Self::Text(text) => Some(text),
            Self::Late(text) => Some(text),
        }
    }
}

impl Failure {
    pub(super) fn new(kind: ErrorKind) -> Self {
        Self { kind, detail: Detail::None, source: None, condition: None, timestamp: None, retryable: None }
    }

    pub(super) fn from_condition(condition: Cow<'static, str>, not_found: ErrorKind) -> Self {
        let (kind, transient) = match condition::meaning(&condition) {
            Some(meaning) if meaning.kind == ErrorKind::EntityNotFound => (not_found, meaning.is_transient),
            Some(meaning) => (meaning.kind, meaning.is_transient),
            None => (ErrorKind::General, true),
        };
        Self { condition: Some(condition), retryable: Some(transient), ..Self::new(kind) }
    }

    pub(super) fn status(&self) -> Option<u16> {
        match self.condition.as_deref().and_then(condition::meaning) {
            Some(meaning) => meaning.status,
            None => self.kind.status(),
        }
    }

    /// An error of another layer.
    pub(super) fn from_other(other: BoxError) -> Self {
        let kind = if other.is::<tower::timeout::error::Elapsed>() {
            ErrorKind::ServiceTimeout
        } else if other.is::<tower::load_shed::error::Overloaded>() {
            ErrorKind::Throttled
        } else {
            ErrorKind::General
        };
        let detail = Detail::Text(Cow::Owned(other.to_string()));
        Self { detail, source: Some(other), ..Self::new(kind) }
    }

    pub(super) fn set_detail(&mut self, detail: Cow<'static, str>) {
        self.detail = Detail::Text(detail);
    }

    pub(super) fn map_detail(&mut self, write: impl FnOnce(Option<&str>) -> String + Send + Sync + 'static) {
        let detail = std::mem::replace(&mut self.detail, Detail::None);
        self.detail = Detail::Late(LazyLock::new(Box::new(move || write(detail.get()))));
    }

    pub(super) fn description(&self) -> Option<&str> {
        self.detail.get()
    }

    pub(super) fn fmt_display(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.describe())?;
        let Some(description) = self.description() else { return Ok(()) };
        match (tracking::readable(description), tracking::tracking_id(description)) {
            (_, None) if !description.contains("Reference:") => write!(f, " ({description})"),
            ("", None) => Ok(()),
            (text, None) => write!(f, " ({text})"),
            ("", Some(id)) => write!(f, " (tracking id {id})"),
            (text, Some(id)) => write!(f, " ({text}; tracking id {id})"),
        }
    }

    pub(super) fn fmt_debug(&self, f: &mut fmt::Formatter<'_>, name: &str) -> fmt::Result {
        f.debug_struct(name)
            .field("kind", &self.kind)
            .field("condition", &self.condition)
            .field("detail", &self.description())
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}
