//! The settlement of a received message: a [`Disposition`], and the types that convert into
//! one.

mod dead_letter;
mod unreadable;

use std::{borrow::Cow, fmt, time::Duration};

pub use self::dead_letter::{DeadLetter, DeadLetterReason};
pub use self::unreadable::UnreadableMessage;
use crate::message::{ApplicationProperties, PropertyValue};

/// The outcome of handling a message. The protocol has these four and no more.
#[derive(Clone, Debug, PartialEq)]
pub enum Disposition {
    /// Done: the message is removed.
    Complete,
    /// Abandons the message: the lock is released, and the failed delivery counts. The message is redelivered
    /// or, after the last delivery, dead-lettered.
    Abandon(Changes),
    /// Moves the message to the dead-letter sub-queue, with a reason.
    DeadLetter(Box<DeadLetter>),
    /// Later, and only by its sequence number.
    Defer(Changes),
}

/// Application properties to replace or add when a message is settled, and the [delay](Changes::after) before an abandoned
/// message is delivered again. Nothing is removed, and what the broker sets cannot be changed this way.
#[derive(Clone, Default)]
pub struct Changes(Option<Box<Inner>>);

#[derive(Clone, Default)]
struct Inner {
    properties: ApplicationProperties,
    cause: Option<Cause>,
    then: Option<Then>,
}

/// What the consumer does with an abandoned message instead of abandoning it at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub enum Then {
    /// It abandons the message so that it is redelivered after this time.
    Delay(Duration),
    /// No handler has seen the message: it keeps the message outside of its slots and calls the stack again. Something
    /// may have changed after this time, zero if that is not known.
    Hold(Duration),
}

#[derive(Clone)]
struct Cause {
    /// From a closed list.
    code: &'static str,
    text: Box<str>,
}

impl Changes {
    /// No changes.
    pub const NONE: Self = Self(None);

    /// Returns what is to be replaced or added.
    #[must_use]
    pub fn properties(&self) -> Option<&ApplicationProperties> {
        self.0.as_deref().map(|inner| &inner.properties).filter(|properties| !properties.is_empty())
    }

    /// Returns the reason why the handler abandoned the message: the text of its error, with those of the error's sources.
    /// It stays in this process, and is not compared. A `Consumer` logs it.
    #[must_use]
    pub fn cause(&self) -> Option<&str> {
        Some(&self.0.as_ref()?.cause.as_ref()?.text)
    }

    /// Returns the same changes with a delay: an abandoned message is redelivered after `delay` and not before. The
    /// delivery counts.
    ///
    /// A `Consumer` and [`Delivery::settle`](crate::transport::Delivery::settle) use
    /// [`Lease::abandon_after`](crate::transport::Lease::abandon_after). Where the transport cannot do that, the consumer
    /// keeps the message for the delay and abandons it then. [`Lease::settle`](crate::transport::Lease::settle) does not read
    /// the delay, and neither does a message that is deferred.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        self.0.get_or_insert_default().then = Some(Then::Delay(delay));
        self
    }

    /// Returns the delay before an abandoned message is delivered again.
    #[must_use]
    pub fn delay(&self) -> Option<Duration> {
        match self.then() {
            Some(Then::Delay(delay)) => Some(delay),
            _ => None,
        }
    }

    /// Returns the same changes without the delay.
    #[doc(hidden)]
    #[must_use]
    pub fn at_once(mut self) -> Self {
        if let Some(inner) = &mut self.0 {
            inner.then = None;
        }
        self
    }

    /// The message is to be kept and handed to the stack again.
    #[doc(hidden)]
    #[must_use]
    pub fn hold(left: Duration) -> Self {
        Self(Some(Box::new(Inner { then: Some(Then::Hold(left)), ..Inner::default() })))
    }

    #[doc(hidden)]
    #[must_use]
    pub fn then(&self) -> Option<Then> {
        self.0.as_ref()?.then
    }

    /// Whether no handler has seen the message. A layer passes such an answer on as it is.
    #[doc(hidden)]
    #[must_use]
    pub fn is_hold(&self) -> bool {
        matches!(self.then(), Some(Then::Hold(_)))
    }

    /// The code of what a handler has answered with an error, in log lines.
    #[doc(hidden)]
    pub const HANDLER_FAILED: &'static str = "HandlerFailed";

    /// Changes nothing, for this cause.
    #[doc(hidden)]
    pub fn because(cause: impl Into<Box<str>>) -> Self {
        Self::coded(Self::HANDLER_FAILED, cause)
    }

    /// Changes nothing, for this cause, whose code is from a closed list.
    #[doc(hidden)]
    pub fn coded(code: &'static str, cause: impl Into<Box<str>>) -> Self {
        let cause = Some(Cause { code, text: cause.into() });
        Self(Some(Box::new(Inner { cause, ..Inner::default() })))
    }

    /// Replaces or adds one property.
    #[doc(hidden)]
    #[must_use]
    pub fn with_property(mut self, name: &'static str, value: impl Into<PropertyValue>) -> Self {
        self.0.get_or_insert_default().properties.insert(name, value);
        self
    }

    /// The code of the cause.
    #[doc(hidden)]
    #[must_use]
    pub fn cause_code(&self) -> Option<&'static str> {
        Some(self.0.as_ref()?.cause.as_ref()?.code)
    }

    /// Returns the changed properties.
    #[must_use]
    pub fn into_properties(self) -> ApplicationProperties {
        self.0.map_or_else(ApplicationProperties::new, |inner| inner.properties)
    }

    /// Returns the changed properties that an abandon or a deferral may set: all except the reason and the description of a
    /// dead letter, which only dead-lettering sets.
    #[must_use]
    pub fn into_permitted(self) -> ApplicationProperties {
        let mut properties = self.into_properties();
        properties.remove(DeadLetter::REASON);
        properties.remove(DeadLetter::DESCRIPTION);
        properties
    }

    /// Returns whether there is nothing to change.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.properties().is_none()
    }
}

impl PartialEq for Changes {
    fn eq(&self, other: &Self) -> bool {
        self.properties() == other.properties() && self.then() == other.then()
    }
}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut tuple = f.debug_tuple("Changes");
        tuple.field(&self.properties());
        if let Some(then) = self.then() {
            tuple.field(&then);
        }
        tuple.finish()
    }
}

impl From<ApplicationProperties> for Changes {
    fn from(properties: ApplicationProperties) -> Self {
        Self((!properties.is_empty()).then(|| Box::new(Inner { properties, ..Inner::default() })))
    }
}

impl Disposition {
    /// Abandon, without changes.
    pub const ABANDON: Self = Self::Abandon(Changes::NONE);
    /// Defer, without changes.
    pub const DEFER: Self = Self::Defer(Changes::NONE);

    /// Abandon, without changes, so that the message is delivered again after `delay`: [`Changes::after`].
    #[must_use]
    pub fn abandon_after(delay: Duration) -> Self {
        Self::Abandon(Changes::NONE.after(delay))
    }

    /// Dead-letter with a reason and a description.
    #[must_use]
    pub fn dead_letter(reason: DeadLetterReason, description: impl Into<Cow<'static, str>>) -> Self {
        Self::DeadLetter(Box::new(DeadLetter::new(reason, description)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_and_a_delay_are_read_again() {
        let changes = Changes::because("no stock").after(Duration::from_secs(3));
        assert_eq!((changes.cause(), changes.delay()), (Some("no stock"), Some(Duration::from_secs(3))));
        let changes = changes.at_once();
        assert_eq!((changes.cause(), changes.delay()), (Some("no stock"), None));
        assert_eq!(Changes::NONE.cause(), None);
    }

    #[test]
    fn only_a_message_that_is_held_is_on_hold() {
        let held = Changes::hold(Duration::from_secs(3));
        assert_eq!((held.is_hold(), held.then()), (true, Some(Then::Hold(Duration::from_secs(3)))));
        assert_eq!(held.delay(), None);
        assert!(!Changes::NONE.after(Duration::from_secs(3)).is_hold());
    }
}
