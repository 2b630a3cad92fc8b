//! What of a serde error may be told. The texts of serde quote the value that was found, so only the part that comes
//! from the asked type is kept.

use std::{borrow::Cow, error, fmt};

use serde::de::{self, Expected, Unexpected};

use crate::{DecodeError, DecodeErrorKind, EncodeError, EncodeErrorKind};

/// The refusal that a message of serde stands for, without what it quotes of the body. A message of the user's own
/// (`Error::custom`) is dropped: what it quotes cannot be known. One that has the exact form of serde's is taken for it.
#[cold]
pub(crate) fn refusal(message: &str) -> DecodeError {
    if is_name(message, "duplicate field `") {
        return DecodeError::new(DecodeErrorKind::DuplicateKey).with_detail(message.to_owned());
    }
    let error = DecodeError::new(DecodeErrorKind::Type);
    match safe_part(message) {
        Some(detail) => error.with_detail(detail.into_owned()),
        None => error,
    }
}

/// A value that its format cannot hold. The format's own text may quote the value, so it is kept as the source only.
#[cold]
pub(crate) fn unsupported(source: impl Into<Box<dyn error::Error + Send + Sync>>) -> EncodeError {
    EncodeError::new(EncodeErrorKind::Unsupported).with_source(source)
}

/// A value whose `Serialize` refused.
#[cold]
pub(crate) fn refused_value(source: impl Into<Box<dyn error::Error + Send + Sync>>) -> EncodeError {
    EncodeError::new(EncodeErrorKind::Value).with_source(source)
}

/// The serde error of the decoders in this crate. It takes what the type expected and never looks at what was found.
#[derive(Debug)]
pub(crate) struct Refused(DecodeError);

impl Refused {
    pub(crate) fn into_inner(self) -> DecodeError {
        self.0
    }
}

impl From<DecodeError> for Refused {
    fn from(error: DecodeError) -> Self {
        Self(error)
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl error::Error for Refused {}

impl de::Error for Refused {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(refusal(&message.to_string()))
    }

    fn invalid_type(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self(DecodeError::new(DecodeErrorKind::Type).with_detail(format!("expected {expected}")))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_type(found, expected)
    }

    fn invalid_length(_: usize, expected: &dyn Expected) -> Self {
        Self::invalid_type(Unexpected::Unit, expected)
    }
}

fn safe_part(message: &str) -> Option<Cow<'_, str>> {
    const QUOTING: [&str; 5] =
        ["invalid type: ", "invalid value: ", "invalid length ", "unknown variant `", "unknown field `"];
    if is_name(message, "missing field `") || message.starts_with("data did not match any variant of untagged enum ") {
        return Some(message.into());
    }
    if !QUOTING.iter().any(|start| message.starts_with(start)) {
        return None;
    }
    // An enum without variants has no "expected" of its own, so any that stands there was quoted.
    for end in ["there are no variants", "there are no fields"] {
        if message.ends_with(end) {
            return Some(end.into());
        }
    }
    message.rfind(", expected ").map(|at| message[at + 2..].into())
}

/// Whether `message` is `start`, one name and a backtick: no more than serde itself writes.
fn is_name(message: &str, start: &str) -> bool {
    message
        .strip_prefix(start)
        .and_then(|rest| rest.strip_suffix('`'))
        .is_some_and(|name| !name.contains(['`', '"', '\n']))
}

#[cfg(test)]
mod tests {
    use serde::de::{Error as _, value::Error};

    use super::*;

    fn detail(error: &Error) -> Option<String> {
        refusal(&error.to_string()).detail().map(str::to_owned)
    }

    #[test]
    fn what_the_type_expected_is_kept_and_what_was_found_is_not() {
        for canary in ["CANARY", "x, expected CANARY", "CANARY, there are no variants", "`, expected CANARY", "\n"] {
            let text = Unexpected::Str(canary);
            for (error, kept) in [
                (Error::invalid_type(text, &"u8"), Some("expected u8")),
                (Error::invalid_value(text, &"an even number"), Some("expected an even number")),
                (Error::unknown_variant(canary, &["A"]), Some("expected `A`")),
                (Error::unknown_variant(canary, &["A", "B"]), Some("expected `A` or `B`")),
                (Error::unknown_variant(canary, &[]), Some("there are no variants")),
                (Error::unknown_field(canary, &["a", "b", "c"]), Some("expected one of `a`, `b`, `c`")),
                (Error::unknown_field(canary, &[]), Some("there are no fields")),
                (Error::custom(canary), None),
                (Error::custom(format!("missing field `{canary}` \"CANARY\"")), None),
            ] {
                assert_eq!(detail(&error).as_deref(), kept, "{error}");
            }
        }
    }

    #[test]
    fn names_of_the_type_are_kept() {
        assert_eq!(detail(&Error::missing_field("qty")).as_deref(), Some("missing field `qty`"));
        assert_eq!(detail(&Error::duplicate_field("qty")).as_deref(), Some("duplicate field `qty`"));
        assert_eq!(refusal("duplicate field `qty`").kind(), DecodeErrorKind::DuplicateKey);
        assert_eq!(detail(&Error::invalid_length(3, &"a pair")).as_deref(), Some("expected a pair"));
        let untagged = "data did not match any variant of untagged enum Event";
        assert_eq!(refusal(untagged).detail(), Some(untagged));
    }
}
