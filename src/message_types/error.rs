use std::{error, fmt};

use tower::BoxError;

use super::{MessageType, TypeTable};
use crate::{
    Disposition,
    settlement::{DeadLetterReason, IntoDisposition, Undecodable},
};

/// The error of a message that is not a value of an enum of types. As a [`Disposition`] it is a dead letter:
/// `UnknownMessageType`, `DeserializationFailed`, or what an [`Undecodable`] is.
#[derive(Debug)]
pub struct TypeError(Box<Cause>);

/// The cause of a type error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TypeErrorKind {
    /// The message names no type.
    Missing,
    /// It names a type that is not of the enum.
    UnknownType,
    /// It names a version that the type does not have, or an invalid version.
    UnknownVersion,
    /// Its body cannot be decoded.
    Undecodable,
    /// Its body was decoded, and a step to the next version refused it or panicked.
    Step,
}

#[derive(Debug)]
enum Cause {
    Missing(Option<&'static str>),
    UnknownType(Option<&'static str>, Box<str>),
    UnknownVersion { name: &'static str, property: &'static str, first: u32, newest: u32, said: Option<u64> },
    Undecodable(Undecodable),
    Step { to: u32, error: Option<BoxError> },
}

impl TypeError {
    #[cold]
    pub(super) fn missing(table: &TypeTable) -> Self {
        Self(Box::new(Cause::Missing(table.property)))
    }

    #[cold]
    pub(super) fn unknown_type(table: &TypeTable, name: &str) -> Self {
        Self(Box::new(Cause::UnknownType(table.property, shown(name))))
    }

    #[cold]
    pub(super) fn unknown_version(table: &TypeTable, of: &MessageType, said: Option<u64>) -> Self {
        let first = of.versions.first().copied().unwrap_or_default();
        let newest = of.newest().unwrap_or_default();
        Self(Box::new(Cause::UnknownVersion { name: of.name, property: table.version_property, first, newest, said }))
    }

    #[cold]
    pub(super) fn step(to: u32, error: Option<BoxError>) -> Self {
        Self(Box::new(Cause::Step { to, error }))
    }

    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> TypeErrorKind {
        match &*self.0 {
            Cause::Missing(_) => TypeErrorKind::Missing,
            Cause::UnknownType(..) => TypeErrorKind::UnknownType,
            Cause::UnknownVersion { .. } => TypeErrorKind::UnknownVersion,
            Cause::Undecodable(_) => TypeErrorKind::Undecodable,
            Cause::Step { .. } => TypeErrorKind::Step,
        }
    }
}

/// The dead-letter description of a message that no handler takes. `property` is the one that has the type, and `said` its text;
/// without a property the Subject is the type.
#[cold]
pub(crate) fn no_handler(property: Option<&str>, said: Option<&str>, subject: Option<&str>) -> String {
    let quoted = |text: &str| format!("\"{}\"", shown(text));
    let Some(property) = property else {
        return match subject {
            Some(subject) => format!("no handler takes the subject {}", quoted(subject)),
            None => String::from("the message has no subject, and no handler takes it"),
        };
    };
    match (said, subject) {
        (Some(said), Some(subject)) => format!(
            "no handler takes the type {} of the property {property}, or the subject {}",
            quoted(said),
            quoted(subject)
        ),
        (Some(said), None) => format!("no handler takes the type {} of the property {property}", quoted(said)),
        (None, Some(subject)) => format!(
            "the message has no type in the property {property}, and no handler takes the subject {}",
            quoted(subject)
        ),
        (None, None) => format!("the message has no type in the property {property}, and no handler takes it"),
    }
}

/// It came with the message: escaped, and not all of it.
fn shown(name: &str) -> Box<str> {
    name.chars().take(64).flat_map(char::escape_debug).collect::<String>().into()
}

impl From<Undecodable> for TypeError {
    #[cold]
    fn from(cause: Undecodable) -> Self {
        Self(Box::new(Cause::Undecodable(cause)))
    }
}

impl fmt::Display for TypeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = |property: Option<&str>| match property {
            None => String::from("the subject"),
            Some(property) => format!("the property {property}"),
        };
        match &*self.0 {
            Cause::Missing(property) => write!(f, "the message has no type: {} is missing", place(*property)),
            Cause::UnknownType(property, name) => {
                write!(f, "unknown type \"{name}\" in {}", place(*property))
            }
            Cause::UnknownVersion { name, property, first, newest, said } => {
                match said {
                    Some(said) => write!(f, "unknown version {said}")?,
                    None => f.write_str("invalid version")?,
                }
                write!(f, " of {name} in the property {property}: expected {first}")?;
                if first == newest { Ok(()) } else { write!(f, " to {newest}") }
            }
            Cause::Undecodable(cause) => fmt::Display::fmt(cause, f),
            Cause::Step { to, error: Some(error) } => write!(f, "the step to version {to} refused the value: {error}"),
            Cause::Step { to, error: None } => write!(f, "the step to version {to} panicked"),
        }
    }
}

impl error::Error for TypeError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match &*self.0 {
            Cause::Undecodable(cause) => Some(cause),
            Cause::Step { error, .. } => error.as_deref().map(|error| error as _),
            _ => None,
        }
    }
}

impl IntoDisposition for TypeError {
    #[cold]
    fn into_disposition(self) -> Disposition {
        let reason = match *self.0 {
            Cause::Undecodable(cause) => return cause.into_disposition(),
            Cause::Step { .. } => DeadLetterReason::DeserializationFailed,
            _ => DeadLetterReason::UnknownMessageType,
        };
        Disposition::dead_letter(reason, self.to_string())
    }
}
