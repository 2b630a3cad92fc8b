//! What becomes of a received message: a [`Disposition`], and what converts into one.

mod dead_letter;
mod failure;
mod undecodable;

use std::{borrow::Cow, convert::Infallible, fmt};

pub use self::{
    dead_letter::{DeadLetter, DeadLetterReason},
    failure::{Permanent, Transient},
    undecodable::Undecodable,
};
use crate::message::ApplicationProperties;

/// The outcome of handling a message. The protocol has these four and no more.
#[derive(Clone, Debug, PartialEq)]
pub enum Disposition {
    /// Done: the message is removed.
    Complete,
    /// Not now: the lock is given up, the failed delivery counts, and the message comes again or, after the last
    /// delivery, is dead-lettered.
    Abandon(Changes),
    /// Never: the message goes to the dead-letter sub-queue with a reason.
    DeadLetter(Box<DeadLetter>),
    /// Later, and only by its sequence number.
    Defer(Changes),
}

/// Application properties to replace or add when a message is settled. Nothing is removed, and what the broker sets
/// cannot be changed this way.
#[derive(Clone, Default)]
pub struct Changes(Option<Box<Inner>>);

#[derive(Clone, Default)]
struct Inner {
    properties: ApplicationProperties,
    cause: Option<Box<str>>,
}

impl Changes {
    /// No changes.
    pub const NONE: Self = Self(None);

    /// What is to be replaced or added.
    #[must_use]
    pub fn properties(&self) -> Option<&ApplicationProperties> {
        self.0.as_deref().map(|inner| &inner.properties).filter(|properties| !properties.is_empty())
    }

    /// Why the handler gave the message up: the text of a [`Transient`]. It stays in this process, and is not compared.
    #[must_use]
    pub fn cause(&self) -> Option<&str> {
        self.0.as_ref()?.cause.as_deref()
    }

    /// Changes nothing, for this cause.
    pub(crate) fn because(cause: String) -> Self {
        Self(Some(Box::new(Inner { properties: ApplicationProperties::new(), cause: Some(cause.into()) })))
    }

    /// Takes the properties out.
    #[must_use]
    pub fn into_properties(self) -> ApplicationProperties {
        self.0.map_or_else(ApplicationProperties::new, |inner| inner.properties)
    }

    /// Whether there is nothing to change.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.properties().is_none()
    }
}

impl PartialEq for Changes {
    fn eq(&self, other: &Self) -> bool {
        self.properties() == other.properties()
    }
}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Changes").field(&self.properties()).finish()
    }
}

impl From<ApplicationProperties> for Changes {
    fn from(properties: ApplicationProperties) -> Self {
        Self((!properties.is_empty()).then(|| Box::new(Inner { properties, cause: None })))
    }
}

impl Disposition {
    /// Abandon, without changes.
    pub const ABANDON: Self = Self::Abandon(Changes::NONE);
    /// Defer, without changes.
    pub const DEFER: Self = Self::Defer(Changes::NONE);

    /// Dead-letter with a reason and a description.
    #[must_use]
    pub fn dead_letter(reason: DeadLetterReason, description: impl Into<Cow<'static, str>>) -> Self {
        Self::DeadLetter(Box::new(DeadLetter::new(reason, description)))
    }
}

/// What a handler may return: anything that says what becomes of the message.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say what becomes of a message",
    note = "return `()`, a `Disposition`, or a `Result` of such whose error is a `Transient`, a `Permanent`, or a type of yours that implements `IntoDisposition`"
)]
pub trait IntoDisposition {
    /// What becomes of the message.
    fn into_disposition(self) -> Disposition;
}

impl IntoDisposition for Disposition {
    #[inline]
    fn into_disposition(self) -> Disposition {
        self
    }
}

/// Complete.
impl IntoDisposition for () {
    #[inline]
    fn into_disposition(self) -> Disposition {
        Disposition::Complete
    }
}

impl IntoDisposition for Infallible {
    fn into_disposition(self) -> Disposition {
        match self {}
    }
}

impl IntoDisposition for DeadLetter {
    fn into_disposition(self) -> Disposition {
        Disposition::DeadLetter(Box::new(self))
    }
}

impl<T: IntoDisposition, E: IntoDisposition> IntoDisposition for Result<T, E> {
    #[inline]
    fn into_disposition(self) -> Disposition {
        match self {
            Ok(value) => value.into_disposition(),
            Err(error) => error.into_disposition(),
        }
    }
}
