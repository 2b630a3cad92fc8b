//! Why a message is not completed, for its log line and its dead letter.

use std::borrow::Cow;

use crate::{
    message::Received,
    middleware::trace::outcome,
    settlement::{Changes, DeadLetter, DeadLetterReason},
    transport::Escaped,
};

/// Why a message is settled otherwise than completed, until the broker has answered.
pub(super) struct Cause {
    /// From a closed list: the application's own reasons are one of it.
    pub(super) kind: &'static str,
    pub(super) reason: Cow<'static, str>,
    pub(super) error: Box<str>,
    pub(super) is_last: bool,
}

impl Cause {
    pub(super) fn dead_letter(letter: &DeadLetter) -> Self {
        let reason = match &letter.reason {
            DeadLetterReason::Application(code) => Cow::Owned(Escaped(code).to_string()),
            known => Cow::Borrowed(outcome::code_of(known)),
        };
        Self {
            kind: outcome::code_of(&letter.reason),
            reason,
            error: first_line(&letter.description).into(),
            is_last: false,
        }
    }

    /// The last delivery has failed for this cause. Returns the dead letter with it.
    pub(super) fn last(received: &Received, changes: Changes) -> (Self, DeadLetter) {
        let error = changes.cause().unwrap_or("the handler abandoned the message");
        let mut letter = DeadLetter::max_delivery_count_exceeded(received.delivery_count, Some(error));
        let cause = Self { error: error.into(), is_last: true, ..Self::dead_letter(&letter) };
        letter.changes = changes.into_properties().into();
        (cause, letter)
    }

    /// `None` if the handler has not said why.
    pub(super) fn abandon(changes: &Changes) -> Option<Self> {
        let (kind, error) = (changes.cause_code()?, changes.cause()?);
        Some(Self { kind, reason: Cow::Borrowed(kind), error: error.into(), is_last: false })
    }
}

pub(super) fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}
