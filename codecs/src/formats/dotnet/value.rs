//! The values of text records, and their text, which is that of XML Schema.

use std::{borrow::Cow, fmt::Write};

use super::{base64_text, time};

/// The value of one text record. Text XML has only text.
#[derive(Clone, Debug)]
pub(super) enum Value<'a> {
    Text(Cow<'a, str>),
    Bytes(&'a [u8]),
    Bool(bool),
    Int(i64),
    Unsigned(u64),
    Float(f32),
    Double(f64),
    Decimal(Decimal),
    /// A time in the form of `DateTime.ToBinary`.
    Time(u64),
    /// Ticks of 100 ns.
    Span(i64),
    /// A GUID, in the byte order of .NET.
    Guid([u8; 16]),
    /// A GUID that is written as a URN.
    UniqueId([u8; 16]),
}

impl<'a> Value<'a> {
    /// Returns the text of the value. It is borrowed from the body if it is there.
    pub(super) fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Text(text) => Cow::Borrowed(text),
            Self::Bytes(bytes) => Cow::Owned(base64_text::encode(bytes)),
            Self::Bool(value) => Cow::Borrowed(if *value { "true" } else { "false" }),
            Self::Int(value) => Cow::Owned(value.to_string()),
            Self::Unsigned(value) => Cow::Owned(value.to_string()),
            Self::Float(value) => Cow::Owned(float(f64::from(*value), &value.to_string())),
            Self::Double(value) => Cow::Owned(float(*value, &value.to_string())),
            Self::Decimal(value) => Cow::Owned(value.text()),
            Self::Time(value) => Cow::Owned(time::instant(*value)),
            Self::Span(ticks) => Cow::Owned(time::span(*ticks)),
            Self::Guid(bytes) => Cow::Owned(guid(bytes)),
            Self::UniqueId(bytes) => Cow::Owned(format!("urn:uuid:{}", guid(bytes))),
        }
    }

    /// Returns the text if it is borrowed from the body.
    pub(super) fn borrowed(&self) -> Option<&'a str> {
        match self {
            Self::Text(Cow::Borrowed(text)) => Some(text),
            _ => None,
        }
    }

    pub(super) fn is_blank(&self) -> bool {
        matches!(self, Self::Text(text) if text.bytes().all(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n')))
    }
}

fn float(value: f64, text: &str) -> String {
    if value.is_finite() {
        return text.to_owned();
    }
    (if value.is_nan() {
        "NaN"
    } else if value > 0.0 {
        "INF"
    } else {
        "-INF"
    })
    .to_owned()
}

/// A decimal number of .NET: an integer of 96 bits, divided by a power of ten up to 28. The bytes of its record, which take less
/// space than a `u128` of its alignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decimal([u8; 16]);

impl Decimal {
    /// Reads the 16 bytes of a record. `None` if the sign or the scale is none that .NET has.
    pub(super) fn read(bytes: [u8; 16]) -> Option<Self> {
        let [_, _, scale, sign, ..] = bytes;
        (scale <= 28 && matches!(sign, 0 | 0x80)).then_some(Self(bytes))
    }

    /// Returns the number with all of its digits, also zeros at the end.
    fn text(self) -> String {
        let [_, _, scale, sign, h0, h1, h2, h3, low @ ..] = self.0;
        let high = u32::from_le_bytes([h0, h1, h2, h3]);
        let digits = u128::from(high) << 64 | u128::from(u64::from_le_bytes(low));
        let scale = usize::from(scale);
        let digits = format!("{digits:0>width$}", width = scale + 1);
        let (whole, fraction) = digits.split_at(digits.len() - scale);
        let sign = if sign > 0 { "-" } else { "" };
        if fraction.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") }
    }
}

/// Returns the text of a GUID whose first three groups are little-endian.
fn guid(bytes: &[u8; 16]) -> String {
    const ORDER: [usize; 16] = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
    let mut text = String::with_capacity(36);
    for (at, byte) in ORDER.into_iter().filter_map(|at| bytes.get(at)).enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decimal_keeps_all_of_its_digits() {
        let text = |scale, sign, digits: u128| {
            let mut bytes = [0; 16];
            (bytes[2], bytes[3]) = (scale, sign);
            bytes[4..8].copy_from_slice(&digits.to_le_bytes()[8..12]);
            bytes[8..].copy_from_slice(&digits.to_le_bytes()[..8]);
            Decimal::read(bytes).map(Decimal::text)
        };
        assert_eq!(text(0, 0, 0).as_deref(), Some("0"));
        assert_eq!(text(4, 0, 12_345_600).as_deref(), Some("1234.5600"));
        assert_eq!(text(6, 0x80, 1).as_deref(), Some("-0.000001"));
        assert_eq!(text(0, 0, (1 << 96) - 1).as_deref(), Some("79228162514264337593543950335"));
        assert_eq!((text(29, 0, 1), text(0, 1, 1)), (None, None));
    }

    #[test]
    fn the_first_three_groups_of_a_guid_are_little_endian() {
        let bytes = std::array::from_fn(|at| u8::try_from(at).unwrap_or_default());
        assert_eq!(guid(&bytes), "03020100-0504-0706-0809-0a0b0c0d0e0f");
    }

    #[test]
    fn floats_have_the_names_of_xml_schema() {
        let texts =
            [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.5].map(|value| Value::Double(value).text().into_owned());
        assert_eq!(texts, ["NaN", "INF", "-INF", "0.5"]);
    }
}
