//! One of several types: for bodies of several generations, without a property that names the generation.

use crate::{CodecSet, Codecs, Decode, DecodeErrorKind, DecodeFailure, Decoded, FailureReason, Format};

/// A body that is one of two to four types, which try in their order: `OneOf<(V2, V1)>`.
///
/// Each type tries as it would alone, by ContentType and chain, and the first that succeeds is the value. So put the strictest
/// type first, and the oldest, which requires least, last. In a format with field names let the types refuse unknown fields
/// (`#[serde(deny_unknown_fields)]`). A positional format cannot distinguish types of one layout.
///
/// The next type does not try after a failure that is the same for all: a ContentType that is not allowed, a charset, or a limit. In a
/// positional format only the limit of the size is, because a length there may be another field of another type. If none succeeds the
/// failure has the attempts of all, each with the number of its type.
///
/// ```
/// # #[cfg(feature = "json")] {
/// use consign_codecs::{Codecs, OneOf, Of2};
/// use serde::Deserialize;
///
/// #[derive(Deserialize)]
/// struct V1 {
///     name: String,
/// }
///
/// #[derive(Deserialize)]
/// struct V2 {
///     first: String,
///     last: String,
/// }
///
/// impl From<V1> for V2 {
///     fn from(old: V1) -> Self {
///         Self { first: String::new(), last: old.name }
///     }
/// }
///
/// let read: OneOf<(V2, V1)> = Codecs::json().decode(None, br#"{"name":"Lovelace"}"#).unwrap();
/// assert!(matches!(read.value, Of2::Second(_)));
/// assert_eq!(read.refused[0].to_string(), "json: the value is not of the expected type: missing field `first` at line 1, column 19");
/// let newest: V2 = read.into_first();
/// assert_eq!(newest.last, "Lovelace");
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OneOf<T: Alternatives> {
    /// The value, whose variant is the type that read it.
    pub value: T::Value,
    /// Why the types before it did not read the body, one failure each, in order.
    pub refused: Vec<DecodeFailure>,
}

/// A tuple of two to four types.
#[diagnostic::on_unimplemented(message = "`{Self}` is no tuple of two to four types")]
pub trait Alternatives: sealed::Sealed {
    /// The enum of these types.
    type Value;
}

mod sealed {
    pub trait Sealed {}
}

/// Records the failure of a type that could not read the body. `Err` if no other can either.
fn refuse<S: CodecSet>(
    codecs: &Codecs<S>,
    refused: &mut Vec<DecodeFailure>,
    failure: DecodeFailure,
) -> Result<(), DecodeFailure> {
    let is_over = match failure.reason() {
        FailureReason::ContentTypeNotAllowed | FailureReason::UnsupportedCharset => true,
        FailureReason::LimitExceeded => failure.attempts().first().is_some_and(|first| {
            let is_of_all = codecs.format_of(first.codec).is_some_and(|format| format != Format::Positional);
            is_of_all || first.error.kind() == DecodeErrorKind::Size
        }),
        _ => false,
    };
    refused.push(failure);
    if is_over { Err(all(refused)) } else { Ok(()) }
}

/// Returns the failure of all types that tried.
#[cold]
fn all(refused: &[DecodeFailure]) -> DecodeFailure {
    let mut attempts = Vec::new();
    for (at, failure) in refused.iter().enumerate() {
        for attempt in failure.attempts() {
            let mut attempt = attempt.clone();
            let detail = match attempt.error.detail() {
                Some(detail) => format!("as type {}, {detail}", at + 1),
                None => format!("as type {}", at + 1),
            };
            attempt.error = attempt.error.with_detail(detail);
            attempts.push(attempt);
        }
    }
    refused[0].with_attempts(attempts)
}

fn matched<T, U>(decoded: Decoded<T>, refused: &[DecodeFailure], value: impl FnOnce(T) -> U) -> Decoded<U> {
    let mut decoded = decoded.map(value);
    if !refused.is_empty() {
        let own = std::mem::take(&mut decoded.attempts);
        decoded.attempts = refused.iter().flat_map(DecodeFailure::attempts).cloned().chain(own).collect();
    }
    decoded
}

macro_rules! one_of {
    ($($(#[$doc:meta])* $of:ident: $($type:ident $variant:ident),+;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $of<$($type),+> {
            $(
                #[doc = concat!("As the type at this place: ", stringify!($variant), ".")]
                $variant($type),
            )+
        }

        impl<$($type),+> sealed::Sealed for ($($type,)+) {}

        impl<$($type),+> Alternatives for ($($type,)+) {
            type Value = $of<$($type),+>;
        }

        one_of! { @first $of $($type $variant),+ }

        impl<'de, $($type: Decode<'de>),+> Decode<'de> for OneOf<($($type,)+)> {
            fn decode_from<Codec: CodecSet>(
                codecs: &Codecs<Codec>,
                content_type: Option<&str>,
                body: &'de [u8],
            ) -> Result<Decoded<Self>, DecodeFailure> {
                let mut refused = Vec::new();
                $(
                    match codecs.decode_traced::<$type>(content_type, body) {
                        Ok(decoded) => {
                            let decoded = matched(decoded, &refused, $of::$variant);
                            return Ok(decoded.map(|value| Self { value, refused }));
                        }
                        Err(failure) => refuse(codecs, &mut refused, failure)?,
                    }
                )+
                Err(all(&refused))
            }

            #[cfg(feature = "amqp-value")]
            fn decode_from_amqp_value<Codec: CodecSet>(
                codecs: &Codecs<Codec>,
                content_type: Option<&str>,
                value: impl crate::amqp_value::Node<'de>,
            ) -> Result<Decoded<Self>, DecodeFailure> {
                let mut refused = Vec::new();
                $(
                    match codecs.decode_amqp_value::<$type>(content_type, value) {
                        Ok(decoded) => {
                            let decoded = matched(decoded, &refused, $of::$variant);
                            return Ok(decoded.map(|value| Self { value, refused }));
                        }
                        Err(failure) => refuse(codecs, &mut refused, failure)?,
                    }
                )+
                Err(all(&refused))
            }
        }
    )*};
    (@first $of:ident $first:ident $first_variant:ident $(, $type:ident $variant:ident)+) => {
        impl<$first $(, $type: Into<$first>)+> OneOf<($first, $($type,)+)> {
            /// Converts into the first type, the newest, whichever type read it.
            pub fn into_first(self) -> $first {
                match self.value {
                    $of::$first_variant(value) => value,
                    $($of::$variant(value) => value.into(),)+
                }
            }
        }
    };
}

one_of! {
    /// One of two types.
    Of2: A First, B Second;
    /// One of three types.
    Of3: A First, B Second, C Third;
    /// One of four types.
    Of4: A First, B Second, C Third, D Fourth;
}
