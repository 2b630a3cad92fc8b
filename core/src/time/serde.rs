//! Instants in bodies.

use std::fmt;

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error, SeqAccess, Unexpected, Visitor},
};

use super::{
    Timestamp,
    instant::{EXTENSION, INSTANT, from_extension},
    rfc3339,
};

/// Text of RFC 3339 in formats for people, milliseconds in the others: an instant, which a format with units converts.
impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // The year 0000. RFC 3339 has none before it.
        const FIRST: Timestamp = Timestamp(-62_167_219_200_000);
        if serializer.is_human_readable() && *self >= FIRST {
            return serializer.collect_str(self);
        }
        serializer.serialize_newtype_struct(INSTANT, &self.0)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_newtype_struct(INSTANT, Instant)
    }
}

struct Instant;

impl<'de> Visitor<'de> for Instant {
    type Value = Timestamp;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an instant: text of RFC 3339, or milliseconds since 1970")
    }

    fn visit_i64<E: Error>(self, millis: i64) -> Result<Timestamp, E> {
        Ok(Timestamp::from_millis(millis))
    }

    fn visit_u64<E: Error>(self, millis: u64) -> Result<Timestamp, E> {
        Ok(i64::try_from(millis).map_or(Timestamp::MAX, Timestamp::from_millis))
    }

    #[expect(clippy::cast_possible_truncation, reason = "a float beyond the range saturates, as an instant does")]
    fn visit_f64<E: Error>(self, millis: f64) -> Result<Timestamp, E> {
        if millis.fract().abs() <= 0.0 {
            return Ok(Timestamp::from_millis(millis as i64));
        }
        Err(E::invalid_value(Unexpected::Float(millis), &self))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Timestamp, E> {
        rfc3339::parse(text).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }

    /// From a codec that marks no instants, and from what serde keeps of a value that it reads twice.
    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Timestamp, D::Error> {
        if deserializer.is_human_readable() {
            return deserializer.deserialize_any(self);
        }
        deserializer.deserialize_i64(self)
    }

    /// From a codec that marks them.
    fn visit_seq<A: SeqAccess<'de>>(self, mut extension: A) -> Result<Timestamp, A::Error> {
        let kind: Option<i8> = extension.next_element()?;
        if kind != Some(EXTENSION) {
            return Err(A::Error::invalid_type(Unexpected::Seq, &self));
        }
        let at = extension.next_element()?.ok_or_else(|| A::Error::invalid_length(1, &self))?;
        match at {
            Extension(Some(at)) => Ok(at),
            Extension(None) => Err(A::Error::invalid_value(Unexpected::Other("another extension"), &self)),
        }
    }
}

/// The bytes of `MessagePack`'s timestamp extension, and the instant that they are.
struct Extension(Option<Timestamp>);

impl Extension {
    fn of(bytes: &[u8]) -> Option<Timestamp> {
        let (seconds, nanos) = from_extension(bytes)?;
        Some(Timestamp::from_millis(seconds.saturating_mul(1_000).saturating_add((nanos / 1_000_000).into())))
    }
}

impl<'de> Deserialize<'de> for Extension {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;

        impl Visitor<'_> for Bytes {
            type Value = Extension;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the 4, 8 or 12 bytes of a timestamp")
            }

            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Extension, E> {
                Ok(Extension(Extension::of(bytes)))
            }
        }

        deserializer.deserialize_bytes(Bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rules: P-110.
    #[test]
    fn an_extension_is_an_instant_in_whole_milliseconds() {
        let twelve = |nanos: u32, seconds: i64| [&nanos.to_be_bytes()[..], &seconds.to_be_bytes()].concat();
        for (bytes, millis) in [
            (&[0, 0, 0, 7][..], Some(7_000)),
            (&twelve(1_999_999, 7), Some(7_001)),
            (&twelve(999_999_999, -1), Some(-1)),
            (&twelve(0, i64::MAX), Some(Timestamp::MAX.as_millis())),
            (&twelve(1_000_000_000, 7), None),
            (&[7], None),
        ] {
            assert_eq!(Extension::of(bytes).map(Timestamp::as_millis), millis, "{bytes:?}");
        }
    }

    /// Rules: P-110.
    /// A codec that marks extensions reads one as a sequence of its kind and its bytes, which are text here.
    #[test]
    fn an_extension_of_another_kind_or_length_is_no_instant() {
        for (extension, millis) in [
            (r#"[-1,"\u0000\u0000\u0000\u0007"]"#, Some(7_000)),
            (r#"[-2,"\u0000\u0000\u0000\u0007"]"#, None),
            (r#"[-1,"\u0000"]"#, None),
            ("[-1]", None),
            ("[]", None),
        ] {
            let read = serde_json::from_str::<Timestamp>(extension);
            assert_eq!(read.ok().map(Timestamp::as_millis), millis, "{extension}");
        }
    }

    /// Rules: P-112.
    #[test]
    fn an_instant_before_the_year_0000_is_milliseconds_in_json() {
        for (millis, json) in [
            (0, "\"1970-01-01T00:00:00.000Z\""),
            (-62_167_219_200_000, "\"0000-01-01T00:00:00.000Z\""),
            (-62_167_219_200_001, "-62167219200001"),
            (i64::MIN, "-9223372036854775808"),
        ] {
            let at = Timestamp::from_millis(millis);
            assert_eq!(serde_json::to_string(&at).unwrap(), json);
            assert_eq!(serde_json::from_str::<Timestamp>(json).unwrap(), at);
        }
    }
}
