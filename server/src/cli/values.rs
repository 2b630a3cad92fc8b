//! Values of options.

use std::{error, fmt, time::Duration};

use consign::{message::PropertyValue, time::Timestamp};

/// A value that is not of its form. It does not quote the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueError {
    Duration,
    Instant,
    Pair,
    Type,
    OfType(&'static str),
    Rate,
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Duration => f.write_str("expected a duration such as 500ms, 30s, 5m, 2h or 7d"),
            Self::Instant => f.write_str("expected an instant such as 2026-11-26T12:00:00Z"),
            Self::Pair => f.write_str("expected NAME=VALUE"),
            Self::Type => {
                f.write_str(
                    "expected one of the types string, bool, u8, u16, u32, u64, i8, i16, i32, i64, f32, f64, ",
                )?;
                f.write_str("char, uuid, uri, instant, bytes (hexadecimal) and null")
            }
            Self::OfType(name) => write!(f, "the value is not of the type {name}"),
            Self::Rate => f.write_str("expected a number of messages a second, above 0"),
        }
    }
}

impl error::Error for ValueError {}

/// A whole number of milliseconds, seconds, minutes, hours or days.
pub(crate) fn duration(text: &str) -> Result<Duration, ValueError> {
    let digits = text.find(|char: char| !char.is_ascii_digit()).ok_or(ValueError::Duration)?;
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| ValueError::Duration)?;
    let seconds = match unit {
        "ms" => return Ok(Duration::from_millis(number)),
        "s" => Some(number),
        "m" => number.checked_mul(60),
        "h" => number.checked_mul(3_600),
        "d" => number.checked_mul(86_400),
        _ => None,
    };
    seconds.map(Duration::from_secs).ok_or(ValueError::Duration)
}

/// A duration, or `none`.
pub(crate) fn optional_duration(text: &str) -> Result<OptionalDuration, ValueError> {
    if text == "none" { Ok(OptionalDuration(None)) } else { duration(text).map(|of| OptionalDuration(Some(of))) }
}

/// A setting that may be unlimited. A type of its own, because clap takes an `Option` for an option that is absent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OptionalDuration(pub(crate) Option<Duration>);

/// An instant of RFC 3339.
pub(crate) fn instant(text: &str) -> Result<Timestamp, ValueError> {
    // A number would be milliseconds.
    if !text.contains('-') {
        return Err(ValueError::Instant);
    }
    serde_json::from_value(text.into()).map_err(|_| ValueError::Instant)
}

/// Messages a second.
pub(crate) fn rate(text: &str) -> Result<f64, ValueError> {
    let rate: f64 = text.parse().map_err(|_| ValueError::Rate)?;
    if rate.is_finite() && rate >= 0.001 { Ok(rate) } else { Err(ValueError::Rate) }
}

/// `NAME=VALUE`.
pub(crate) fn pair(text: &str) -> Result<(String, String), ValueError> {
    let (name, value) = text.split_once('=').ok_or(ValueError::Pair)?;
    if name.is_empty() { Err(ValueError::Pair) } else { Ok((name.to_owned(), value.to_owned())) }
}

/// An application property: `NAME=TEXT`, or `NAME:TYPE=VALUE`.
#[derive(Clone, Debug)]
pub(crate) struct Property {
    pub(crate) name: String,
    pub(crate) value: PropertyValue,
}

pub(crate) fn property(text: &str) -> Result<Property, ValueError> {
    let (name, value) = pair(text)?;
    let Some((name, kind)) = name.rsplit_once(':') else {
        return Ok(Property { name, value: value.into() });
    };
    let value = typed(kind, &value)?;
    if name.is_empty() { Err(ValueError::Pair) } else { Ok(Property { name: name.to_owned(), value }) }
}

fn typed(kind: &str, text: &str) -> Result<PropertyValue, ValueError> {
    let (short, name) = match kind {
        "string" => return Ok(text.into()),
        "instant" => return instant(text).map(Into::into),
        "uuid" => {
            let uuid = uuid::Uuid::try_parse(text).map_err(|_| ValueError::OfType("uuid"))?;
            return Ok(PropertyValue::Uuid(uuid.into_bytes()));
        }
        "bool" => ("bool", "bool"),
        "u8" => ("u8", "u8"),
        "u16" => ("u16", "u16"),
        "u32" => ("u32", "u32"),
        "u64" => ("u64", "u64"),
        "i8" => ("i8", "i8"),
        "i16" => ("i16", "i16"),
        "i32" => ("i32", "i32"),
        "i64" => ("i64", "i64"),
        "f32" => ("f32", "f32"),
        "f64" => ("f64", "f64"),
        "char" => ("char", "char"),
        "uri" => ("uri", "uri"),
        "bytes" => ("bytes", "bytes"),
        "null" => ("null", "null"),
        _ => return Err(ValueError::Type),
    };
    consign_core::wire::text::read(&format!("{short}:{text}")).map_err(|_| ValueError::OfType(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_unit() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("2h"), Ok(Duration::from_secs(7_200)));
        for wrong in ["", "5", "s", "5w", "-5s", "99999999999999999999s", "18446744073709551615d"] {
            assert_eq!(duration(wrong), Err(ValueError::Duration), "{wrong}");
        }
    }

    #[test]
    fn properties_have_types() {
        for (text, name, value) in [
            ("tenant=north", "tenant", "north".into()),
            ("a=b=c", "a", "b=c".into()),
            ("count:i32=-3", "count", (-3_i32).into()),
            ("paid:bool=true", "paid", true.into()),
            ("a:b:string=c", "a:b", "c".into()),
            ("raw:bytes=00ff", "raw", bytes::Bytes::from_static(b"\x00\xff").into()),
            ("at:instant=1970-01-01T00:00:01Z", "at", Timestamp::from_millis(1_000).into()),
        ] {
            let property = property(text).unwrap();
            assert!(property.name == name && property.value == value, "{text}: {property:?}");
        }
        for wrong in ["tenant", "=x", "a:i32=x", "a:int=3", ":i32=3", "a:uuid=1", "at:instant=5"] {
            assert!(property(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn rates_are_positive() {
        assert_eq!(rate("0.5"), Ok(0.5));
        for wrong in ["0", "-1", "inf", "NaN", "x"] {
            assert_eq!(rate(wrong), Err(ValueError::Rate), "{wrong}");
        }
    }
}
