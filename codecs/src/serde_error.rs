//! The parts of a serde error that may be reported. The texts of serde quote the value that was found, so only the part that
//! comes from the requested type is kept.

use std::{error, fmt};

use serde::de::{self, Expected, Unexpected};

use crate::{DecodeError, DecodeErrorKind, EncodeError, EncodeErrorKind, ValueKind};

/// The refusal of a value that the type did not read to its end.
#[cfg(any(feature = "avro", feature = "msgpack", feature = "cbor", feature = "dotnet", feature = "amqp-value"))]
#[cold]
pub(crate) fn left_a_part() -> DecodeError {
    DecodeError::new(DecodeErrorKind::Type).with_detail(LEFT_A_PART)
}

pub(crate) const LEFT_A_PART: &str = "the type did not read the whole value";

/// The text of a value without a type, in which a key occurs twice.
pub(crate) const KEY_TWICE: &str = "a key twice";

/// Returns the refusal for a message of serde, without its quotations of the body. A message of the user's own
/// (`Error::custom`) is dropped, because it may quote the body. One that has the exact form of serde's is treated as serde's.
#[cold]
pub(crate) fn refusal(message: &str) -> DecodeError {
    if is_name(message, "duplicate field `") {
        return DecodeError::new(DecodeErrorKind::DuplicateKey).with_detail(message.to_owned());
    }
    if message == KEY_TWICE {
        return DecodeError::new(DecodeErrorKind::DuplicateKey);
    }
    let error = DecodeError::new(DecodeErrorKind::Type);
    if is_name(message, "missing field `") || message.starts_with("data did not match any variant of untagged enum ") {
        return error.with_detail(message.to_owned());
    }
    if message == LEFT_A_PART {
        return error.with_detail(LEFT_A_PART);
    }
    let Some((detail, rest)) = quoting(message) else { return error };
    // An enum without variants has no "expected" of its own, so a text there was quoted.
    for (unknown, end) in [(UNKNOWN_VARIANT, "there are no variants"), (UNKNOWN_FIELD, "there are no fields")] {
        if detail == unknown && message.ends_with(end) {
            return error.with_detail(format!("{unknown}, {end}"));
        }
    }
    let error = if detail.is_empty() { error } else { error.with_detail(detail) };
    let error = match rest.rfind(", expected ") {
        Some(at) => error.with_expected(rest[at + ", expected ".len()..].to_owned()),
        None => error,
    };
    match ValueKind::of_text(rest).filter(|_| detail.is_empty() || detail == INVALID_VALUE) {
        Some(found) => error.with_found(found),
        None => error,
    }
}

const INVALID_VALUE: &str = "invalid value";
const UNKNOWN_VARIANT: &str = "unknown variant";
const UNKNOWN_FIELD: &str = "unknown field";

/// Returns the kind of a serde message that quotes a value, and the quotation with the text after it.
fn quoting(message: &str) -> Option<(&'static str, &str)> {
    const STARTS: [(&str, &str); 5] = [
        ("invalid type: ", ""),
        ("invalid value: ", INVALID_VALUE),
        ("invalid length ", "invalid length"),
        ("unknown variant `", UNKNOWN_VARIANT),
        ("unknown field `", UNKNOWN_FIELD),
    ];
    STARTS.iter().find_map(|&(start, detail)| message.strip_prefix(start).map(|rest| (detail, rest)))
}

/// Creates the error for a value that its format cannot hold. The format's own text may quote the value, so it is kept as the
/// source only.
#[cold]
pub(crate) fn unsupported(source: impl Into<Box<dyn error::Error + Send + Sync>>) -> EncodeError {
    EncodeError::new(EncodeErrorKind::Unsupported).with_source(source)
}

/// Creates the error for a value whose `Serialize` refused.
#[cold]
pub(crate) fn refused_value(source: impl Into<Box<dyn error::Error + Send + Sync>>) -> EncodeError {
    EncodeError::new(EncodeErrorKind::Value).with_source(source)
}

/// The serde error of the decoders in this crate. It takes what the type expected and never reads what was found.
#[derive(Debug)]
pub(crate) struct Refused(DecodeError);

impl Refused {
    pub(crate) fn into_inner(self) -> DecodeError {
        self.0
    }

    /// Returns how many fields a type has that requested one more than there was: `struct Order with 3 elements`, in the words
    /// of serde's derive.
    #[cfg(any(
        feature = "avro",
        feature = "json",
        feature = "msgpack",
        feature = "cbor",
        feature = "bincode",
        feature = "postcard",
        feature = "erased",
        feature = "dotnet",
        feature = "amqp-value"
    ))]
    pub(crate) fn fields(&self) -> Option<usize> {
        let (_, count) = self.0.expected()?.rsplit_once(" with ")?;
        count.split_once(" element")?.0.parse().ok()
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
        let error = refusal(&message.to_string());
        let is_own = error.kind() == DecodeErrorKind::Type && error.detail().is_none() && error.expected().is_none();
        Self(if is_own { error.with_detail("the type refused the value") } else { error })
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let error = DecodeError::new(DecodeErrorKind::Type).with_expected(expected.to_string());
        Self(match ValueKind::of(&found) {
            Some(found) => error.with_found(found),
            None => error,
        })
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self(Self::invalid_type(found, expected).0.with_detail(INVALID_VALUE))
    }

    fn invalid_length(_: usize, expected: &dyn Expected) -> Self {
        let error = DecodeError::new(DecodeErrorKind::Type).with_detail("invalid length");
        Self(error.with_expected(expected.to_string()))
    }
}

/// Returns whether `message` is `start`, one name and a backtick: no more than serde itself writes.
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

    /// Returns all that is kept of a message, as text.
    fn kept(error: &DecodeError) -> String {
        let expected = error.expected().map(|expected| format!("expected {expected}"));
        let found = error.found().map(|found| format!("found {found}"));
        let parts = [error.detail().map(str::to_owned), expected, found];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    /// Rules: P-122.
    #[test]
    fn an_error_has_the_expected_type_and_the_kind_of_the_value() {
        fn errors<E: de::Error>(canary: &str) -> [E; 9] {
            let text = Unexpected::Str(canary);
            [
                E::invalid_type(text, &"u8"),
                E::invalid_value(text, &"an even number"),
                E::unknown_variant(canary, &["A"]),
                E::unknown_variant(canary, &["A", "B"]),
                E::unknown_variant(canary, &[]),
                E::unknown_field(canary, &["a", "b", "c"]),
                E::unknown_field(canary, &[]),
                E::custom(canary),
                E::custom(format!("missing field `{canary}` \"CANARY\"")),
            ]
        }
        let expected = [
            "expected u8, found text",
            "invalid value, expected an even number, found text",
            "unknown variant, expected `A`",
            "unknown variant, expected `A` or `B`",
            "unknown variant, there are no variants",
            "unknown field, expected one of `a`, `b`, `c`",
            "unknown field, there are no fields",
            "",
            "",
        ];
        for canary in ["CANARY", "x, expected CANARY", "CANARY, there are no variants", "`, expected CANARY", "\n"] {
            for (error, expected) in errors::<Error>(canary).iter().zip(expected) {
                assert_eq!(kept(&refusal(&error.to_string())), expected, "{error}");
            }
            for (error, expected) in errors::<Refused>(canary).into_iter().zip(expected) {
                let expected = if expected.is_empty() { "the type refused the value" } else { expected };
                assert_eq!(kept(&error.into_inner()), expected);
            }
        }
    }

    #[test]
    fn names_of_the_type_are_kept() {
        let of = |error: Error| kept(&refusal(&error.to_string()));
        assert_eq!(of(Error::missing_field("qty")), "missing field `qty`");
        assert_eq!(of(Error::duplicate_field("qty")), "duplicate field `qty`");
        assert_eq!(refusal("duplicate field `qty`").kind(), DecodeErrorKind::DuplicateKey);
        assert_eq!(of(Error::invalid_length(3, &"a pair")), "invalid length, expected a pair");
        let untagged = "data did not match any variant of untagged enum Event";
        assert_eq!(refusal(untagged).detail(), Some(untagged));
    }
}
