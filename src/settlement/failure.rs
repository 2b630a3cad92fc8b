use std::error;

use super::{Changes, DeadLetterReason, Disposition, IntoDisposition, Undecodable, cause_of};

type BoxError = Box<dyn error::Error + Send + Sync>;

/// An [`Undecodable`] is a dead letter. Any other error abandons: the delivery counts, the message is redelivered, and
/// [`Changes::cause`] is the text of the error.
impl IntoDisposition for BoxError {
    fn into_disposition(self) -> Disposition {
        unless_undecodable(self, |error| Disposition::Abandon(Changes::because(cause_of(&*error))))
    }
}

/// A failure that may pass: the message is abandoned, and [`Changes::cause`] has the cause. Any error converts into it
/// with `?`, and one does not become transient by it: an [`Undecodable`] is still a dead letter, for no further attempt
/// can read the body.
#[derive(Debug)]
pub struct Transient(BoxError);

/// A permanent failure, which no retry can fix: the message is dead-lettered as `HandlerPermanent`, with the text of
/// the error as description. An [`Undecodable`] keeps its own reason and its attempts.
#[derive(Debug)]
pub struct Permanent(BoxError);

impl Permanent {
    /// Marks `error` as permanent.
    #[must_use]
    pub fn new(error: impl Into<BoxError>) -> Self {
        Self(error.into())
    }

    /// The error.
    #[must_use]
    pub fn into_inner(self) -> BoxError {
        self.0
    }
}

impl Transient {
    /// Marks `error` as one that may pass.
    #[must_use]
    pub fn new(error: impl Into<BoxError>) -> Self {
        Self(error.into())
    }

    /// The error.
    #[must_use]
    pub fn into_inner(self) -> BoxError {
        self.0
    }
}

impl<E: Into<BoxError>> From<E> for Transient {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl<E: Into<BoxError>> From<E> for Permanent {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl IntoDisposition for Transient {
    #[cold]
    fn into_disposition(self) -> Disposition {
        unless_undecodable(self.0, |error| Disposition::Abandon(Changes::because(cause_of(&*error))))
    }
}

impl IntoDisposition for Permanent {
    #[cold]
    fn into_disposition(self) -> Disposition {
        unless_undecodable(self.0, |error| {
            Disposition::dead_letter(DeadLetterReason::HandlerPermanent, error.to_string())
        })
    }
}

#[cold]
fn unless_undecodable(error: BoxError, otherwise: impl FnOnce(BoxError) -> Disposition) -> Disposition {
    match error.downcast::<Undecodable>() {
        Ok(undecodable) => undecodable.into_disposition(),
        Err(other) => otherwise(other),
    }
}
