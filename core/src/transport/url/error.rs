use std::{borrow::Cow, error, fmt};

use crate::transport::{Escaped, ManageError};

/// The kind of a connect error: the reason why a URL did not result in a transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ConnectErrorKind {
    /// The text is not a URL of a transport.
    InvalidUrl,
    /// No connector is registered for the scheme.
    UnknownScheme,
    /// The transport has no parameter of that name, or it was given twice.
    UnknownParameter,
    /// The value of a parameter is not of its form.
    InvalidParameter,
    /// The broker cannot be reached, or refuses the connection.
    Connection,
}

/// An error of [`TransportRegistry::connect`](super::TransportRegistry::connect). Its text names parameters and never has a
/// value of the URL in it.
#[derive(Debug)]
pub struct ConnectError {
    kind: ConnectErrorKind,
    detail: Cow<'static, str>,
    source: Option<ManageError>,
}

impl ConnectError {
    fn new(kind: ConnectErrorKind, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, detail: detail.into(), source: None }
    }

    /// The text is not a URL of this transport. `expected` is its form, without a value of the text.
    #[must_use]
    pub fn invalid_url(expected: &'static str) -> Self {
        Self::new(ConnectErrorKind::InvalidUrl, expected)
    }

    /// The value of the parameter `name` is not of the form that is `expected`.
    #[must_use]
    pub fn invalid_parameter(name: &str, expected: &str) -> Self {
        Self::new(ConnectErrorKind::InvalidParameter, format!("`{}`: expected {expected}", Escaped(name)))
    }

    pub(super) fn unknown_parameter(name: &str) -> Self {
        Self::new(ConnectErrorKind::UnknownParameter, format!("`{}`", Escaped(name)))
    }

    pub(super) fn repeated_parameter(name: &str) -> Self {
        Self::new(ConnectErrorKind::UnknownParameter, format!("`{}` is given twice", Escaped(name)))
    }

    pub(super) fn unknown_scheme(schemes: impl Iterator<Item = &'static str>) -> Self {
        let schemes: Vec<String> = schemes.map(|scheme| format!("`{scheme}:`")).collect();
        let registered = if schemes.is_empty() { "none".into() } else { schemes.join(", ") };
        Self::new(ConnectErrorKind::UnknownScheme, format!("registered: {registered}"))
    }

    /// Returns the kind.
    #[must_use]
    pub fn kind(&self) -> ConnectErrorKind {
        self.kind
    }
}

/// The broker cannot be reached, or refuses the connection.
impl From<ManageError> for ConnectError {
    fn from(error: ManageError) -> Self {
        Self { kind: ConnectErrorKind::Connection, detail: Cow::Borrowed(""), source: Some(error) }
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            ConnectErrorKind::InvalidUrl => "the text is not a valid URL of a transport",
            ConnectErrorKind::UnknownScheme => "no transport is registered for the scheme of the URL",
            ConnectErrorKind::UnknownParameter => "the URL has an unknown parameter",
            ConnectErrorKind::InvalidParameter => "the URL has a parameter with an invalid value",
            ConnectErrorKind::Connection => "the connection failed",
        })?;
        match &self.source {
            Some(error) => write!(f, ": {error}"),
            None => write!(f, " ({})", self.detail),
        }
    }
}

impl error::Error for ConnectError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        self.source.as_ref().map(|error| error as _)
    }
}
