//! Types that are a described list: the macro that makes them out of a table of their fields.
//!
//! A decoder takes a null or missing field for its default, and skips fields beyond the last. An encoder writes every field, null
//! included: there are clients that index a field without a check of the length. It writes null for a field that is `elided` and has
//! its default.

use crate::{
    codec::{ArrayHeader, Decode, DecodeError, DecodeErrorKind, Decoder, Encode, Encoder, codes},
    value::Symbol,
};

/// Values of a field that AMQP 1.0 declares as `multiple`: null, one value, or an array of them.
///
/// It is encoded as null if there is none, and as an array otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Multiple<T>(pub Vec<T>);

impl<T> Default for Multiple<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> FromIterator<T> for Multiple<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        Self(values.into_iter().collect())
    }
}

impl<T: Decode> Decode for Multiple<T> {
    fn decode_after(decoder: &mut Decoder<'_>, code: u8) -> Result<Self, DecodeError> {
        match code {
            codes::NULL => Ok(Self::default()),
            codes::ARRAY_8 | codes::ARRAY_32 => {
                let header = ArrayHeader::read(decoder, code)?;
                header.elements(decoder).map(Self)
            }
            _ => Ok(Self(vec![T::decode_after(decoder, code)?])),
        }
    }
}

impl Encode for Multiple<Symbol> {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        if self.0.is_empty() {
            return encoder.put(codes::NULL);
        }
        encoder.symbols(&self.0);
    }
}

/// A field without a value that has to have one.
#[cold]
pub(crate) fn missing(decoder: &Decoder<'_>) -> DecodeError {
    decoder.error(DecodeErrorKind::Missing)
}

/// Reads the descriptor of a value whose format code has been read, which must be `code`.
pub(crate) fn expect_descriptor(
    decoder: &mut Decoder<'_>,
    format_code: u8,
    code: u8,
    name: &'static str,
) -> Result<(), DecodeError> {
    let start = decoder.offset();
    if described_as(decoder, format_code, name)? == Some(u64::from(code)) {
        Ok(())
    } else {
        Err(DecodeError::new(DecodeErrorKind::Descriptor, start).expected(name))
    }
}

/// The descriptor of a value whose format code has been read.
pub(crate) fn described_as(
    decoder: &mut Decoder<'_>,
    format_code: u8,
    name: &'static str,
) -> Result<Option<u64>, DecodeError> {
    if format_code != codes::DESCRIBED {
        return Err(decoder.mismatch(name, format_code));
    }
    decoder.descriptor()
}

/// A type whose descriptor is known.
pub(crate) trait Composite: Sized {
    /// The descriptor, a number below 256.
    const CODE: u8;

    /// Decodes what follows the descriptor.
    fn decode_content(decoder: &mut Decoder<'_>) -> Result<Self, DecodeError>;
}

macro_rules! composite {
    (
        $(#[$doc:meta])*
        $name:ident = $code:literal $symbol:literal {
            $($(#[$field_doc:meta])* $field:ident: $kind:ident $type:ty $(= $default:expr)?,)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: composite!(@type $kind $type),)*
        }

        impl $name {
            /// The descriptor: the number behind the domain of AMQP 1.0, which is 0.
            pub const DESCRIPTOR: u8 = $code;

            /// The descriptor as a symbol.
            pub const NAME: &'static str = $symbol;
        }

        /// Every field has its default of AMQP 1.0; a mandatory one is empty, zero or the first of its values.
        impl Default for $name {
            fn default() -> Self {
                Self { $($field: composite!(@default $kind $type $(= $default)?),)* }
            }
        }

        impl $crate::types::composite::Composite for $name {
            const CODE: u8 = $code;

            #[allow(unused_mut, reason = "not all have fields")]
            fn decode_content(
                decoder: &mut $crate::codec::Decoder<'_>,
            ) -> Result<Self, $crate::codec::DecodeError> {
                let code = decoder.format_code()?;
                let mut fields =
                    $crate::codec::Fields::list(decoder, code).map_err(|error| error.within(stringify!($name)))?;
                let value = Self {
                    $($field: composite!(
                        @read $kind decoder (concat!(stringify!($name), ".", stringify!($field)))
                        (fields.next::<composite!(@element $kind $type)>(decoder)) $(= $default)?
                    ),)*
                };
                fields.finish(decoder).map_err(|error| error.within(stringify!($name)))?;
                Ok(value)
            }
        }

        impl $crate::codec::Decode for $name {
            fn decode_after(
                decoder: &mut $crate::codec::Decoder<'_>,
                code: u8,
            ) -> Result<Self, $crate::codec::DecodeError> {
                $crate::types::composite::expect_descriptor(decoder, code, $code, $symbol)?;
                $crate::types::composite::Composite::decode_content(decoder)
            }
        }

        impl $crate::codec::Encode for $name {
            fn encode(&self, encoder: &mut $crate::codec::Encoder<'_>) {
                const FIELDS: &[&str] = &[$(stringify!($field)),*];
                encoder.descriptor($code);
                encoder.list(FIELDS.len(), |_encoder| {
                    $(composite!(@write $kind _encoder (&self.$field) $(= $default)?);)*
                });
            }
        }
    };

    (@type optional $type:ty) => { Option<$type> };
    (@type multiple $type:ty) => { $crate::types::Multiple<$type> };
    (@type $kind:ident $type:ty) => { $type };

    (@element multiple $type:ty) => { $crate::types::Multiple<$type> };
    (@element $kind:ident $type:ty) => { $type };

    (@default default $type:ty = $default:expr) => { $default };
    (@default elided $type:ty = $default:expr) => { $default };
    (@default $kind:ident $type:ty) => { Default::default() };

    (@read mandatory $decoder:ident ($field:expr) ($next:expr)) => {
        match $next {
            Ok(Some(value)) => value,
            Ok(None) => return Err($crate::types::composite::missing($decoder).within($field)),
            Err(error) => return Err(error.within($field)),
        }
    };
    (@read elided $($rest:tt)*) => { composite!(@read default $($rest)*) };
    (@read default $decoder:ident ($field:expr) ($next:expr) = $default:expr) => {
        match $next {
            Ok(Some(value)) => value,
            Ok(None) => $default,
            Err(error) => return Err(error.within($field)),
        }
    };
    (@read multiple $decoder:ident ($field:expr) ($next:expr)) => {
        match $next {
            Ok(value) => value.unwrap_or_default(),
            Err(error) => return Err(error.within($field)),
        }
    };
    (@write elided $encoder:ident ($field:expr) = $default:expr) => {
        if *$field == $default {
            $encoder.put($crate::codec::codes::NULL);
        } else {
            $crate::codec::Encode::encode($field, $encoder);
        }
    };
    (@write $kind:ident $encoder:ident ($field:expr) $(= $default:expr)?) => {
        $crate::codec::Encode::encode($field, $encoder)
    };

    (@read optional $decoder:ident ($field:expr) ($next:expr)) => {
        match $next {
            Ok(value) => value,
            Err(error) => return Err(error.within($field)),
        }
    };
}

/// An enumeration of composites, told apart by their descriptors.
macro_rules! one_of {
    ($(#[$doc:meta])* $name:ident $words:literal { $($(#[$variant_doc:meta])* $variant:ident($type:ty) of $inner:ty,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub enum $name {
            $($(#[$variant_doc])* $variant($type),)*
        }

        $(impl From<$inner> for $name {
            fn from(value: $inner) -> Self {
                Self::$variant(value.into())
            }
        })*

        impl $crate::codec::Decode for $name {
            #[allow(non_upper_case_globals, reason = "a pattern for each variant")]
            fn decode_after(
                decoder: &mut $crate::codec::Decoder<'_>,
                code: u8,
            ) -> Result<Self, $crate::codec::DecodeError> {
                $(const $variant: u64 = <$inner as $crate::types::composite::Composite>::CODE as u64;)*
                let start = decoder.offset();
                match $crate::types::composite::described_as(decoder, code, $words)? {
                    $(Some($variant) => {
                        let value: $inner = $crate::types::composite::Composite::decode_content(decoder)?;
                        Ok(Self::$variant(value.into()))
                    })*
                    _ => Err($crate::codec::DecodeError::new($crate::codec::DecodeErrorKind::Descriptor, start).expected($words)),
                }
            }
        }

        impl $crate::codec::Encode for $name {
            fn encode(&self, encoder: &mut $crate::codec::Encoder<'_>) {
                match self {
                    $(Self::$variant(value) => $crate::codec::Encode::encode(value, encoder),)*
                }
            }
        }
    };
}

/// An enumeration that is a number or a truth value on the wire.
macro_rules! choice {
    (
        $(#[$doc:meta])*
        $name:ident: $type:ty, $words:literal {
            $(#[$first_doc:meta])* $first:ident = $first_value:literal,
            $($(#[$variant_doc:meta])* $variant:ident = $value:literal,)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub enum $name {
            $(#[$first_doc])* #[default] $first,
            $($(#[$variant_doc])* $variant,)*
        }

        impl $crate::codec::Decode for $name {
            fn decode_after(
                decoder: &mut $crate::codec::Decoder<'_>,
                code: u8,
            ) -> Result<Self, $crate::codec::DecodeError> {
                let start = decoder.offset();
                match <$type as $crate::codec::Decode>::decode_after(decoder, code)? {
                    $first_value => Ok(Self::$first),
                    $($value => Ok(Self::$variant),)*
                    #[allow(unreachable_patterns, reason = "a truth value has two")]
                    _ => Err($crate::codec::DecodeError::new($crate::codec::DecodeErrorKind::Invalid, start).expected($words)),
                }
            }
        }

        impl $crate::codec::Encode for $name {
            fn encode(&self, encoder: &mut $crate::codec::Encoder<'_>) {
                let value: $type = match self {
                    Self::$first => $first_value,
                    $(Self::$variant => $value,)*
                };
                $crate::codec::Encode::encode(&value, encoder);
            }
        }
    };
}

pub(crate) use {choice, composite, one_of};
