//! Tag 1: seconds since 1970-01-01.

use serde::de::{
    DeserializeSeed, IntoDeserializer, SeqAccess,
    value::{BytesDeserializer, I8Deserializer},
};

use super::{
    float::Float,
    reader::{Head, NEGATIVE, UNSIGNED},
};
use crate::{
    formats::detail::Refused,
    instant::{EXTENSION, date},
};

const MICROS: i64 = 1_000_000;

/// Seconds, and microseconds after them: what a float of 64 bits tells apart in these centuries.
#[derive(Clone, Copy)]
pub(super) struct Seconds {
    seconds: i64,
    micros: u32,
}

impl Seconds {
    pub(super) fn of(head: Head) -> Option<Self> {
        let seconds = match head.major() {
            UNSIGNED => i64::try_from(head.argument).ok()?,
            NEGATIVE => !i64::try_from(head.argument).ok()?,
            _ => return Self::of_float(Float::of(head)?.wide()),
        };
        Some(Self { seconds, micros: 0 })
    }

    #[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
    fn of_float(seconds: f64) -> Option<Self> {
        // Three thousand centuries. NaN is in no range.
        if !(-1e13..1e13).contains(&seconds) {
            return None;
        }
        let whole = seconds.floor();
        let micros = ((seconds - whole) * 1e6).round() as i64;
        let seconds = whole as i64 + micros / MICROS;
        Some(Self { seconds, micros: u32::try_from(micros % MICROS).ok()? })
    }

    /// As RFC 3339 has it, within the years that it has.
    pub(super) fn to_text(self) -> Option<String> {
        const DAY: i64 = 24 * 60 * 60;
        if !(-62_167_219_200..253_402_300_800).contains(&self.seconds) {
            return None;
        }
        let (year, month, day) = date(self.seconds.div_euclid(DAY));
        let second = self.seconds.rem_euclid(DAY);
        let (hours, minutes, seconds) = (second / 3_600, second / 60 % 60, second % 60);
        let whole = format!("{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}");
        let fraction = format!(".{:06}", self.micros);
        Some(whole + fraction.trim_end_matches('0').trim_end_matches('.') + "Z")
    }

    /// The sequence that an [`INSTANT`](crate::instant::INSTANT) is handed over as.
    pub(super) fn into_access<'de>(self) -> impl SeqAccess<'de, Error = Refused> {
        let mut bytes = [0; 12];
        bytes[..4].copy_from_slice(&(self.micros * 1_000).to_be_bytes());
        bytes[4..].copy_from_slice(&self.seconds.to_be_bytes());
        Extension { bytes, next: 0 }
    }
}

struct Extension {
    bytes: [u8; 12],
    next: u8,
}

impl<'de> SeqAccess<'de> for Extension {
    type Error = Refused;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Refused> {
        self.next += 1;
        match self.next {
            1 => {
                let kind: I8Deserializer<Refused> = EXTENSION.into_deserializer();
                seed.deserialize(kind).map(Some)
            }
            2 => seed.deserialize(BytesDeserializer::new(&self.bytes)).map(Some),
            _ => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fraction_is_kept_to_the_microsecond() {
        for (seconds, text) in [
            (1_363_896_240.5, "2013-03-21T20:04:00.5Z"),
            (1_700_000_000.123, "2023-11-14T22:13:20.123Z"),
            (1_700_000_000.999_999_9, "2023-11-14T22:13:21Z"),
            (-0.25, "1969-12-31T23:59:59.75Z"),
            (0.0, "1970-01-01T00:00:00Z"),
        ] {
            assert_eq!(Seconds::of_float(seconds).and_then(Seconds::to_text).as_deref(), Some(text), "{seconds}");
        }
        for seconds in [f64::NAN, f64::INFINITY, 1e300, -1e14] {
            assert!(Seconds::of_float(seconds).is_none(), "{seconds}");
        }
    }
}
