//! The values of application properties in headers.

use consign_core::{message::PropertyValue, time::Timestamp, wire::hex};

use super::date;

/// Ticks of 100 ns from the year 1 to 1970.
const EPOCH_TICKS: i64 = 621_355_968_000_000_000;

/// Reads a value.
pub(super) fn read(text: &str) -> PropertyValue {
    let text = text.trim_matches([' ', '\t']);
    if let Some(quoted) = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
        let quoted = quoted.replace("\\\"", "\"");
        return date::read(&quoted).map_or_else(|| quoted.into(), PropertyValue::DateTime);
    }
    match text {
        "true" => PropertyValue::Bool(true),
        "false" => PropertyValue::Bool(false),
        _ => number(text).unwrap_or_else(|| text.into()),
    }
}

/// Reads a number of the form of JSON, with leading zeros or a sign.
fn number(text: &str) -> Option<PropertyValue> {
    if !text.ends_with(|last: char| last.is_ascii_digit())
        || !text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E'))
    {
        return None;
    }
    if let Ok(integer) = text.parse::<i64>() {
        return Some(PropertyValue::I64(integer));
    }
    text.parse::<f64>().ok().filter(|number| number.is_finite()).map(PropertyValue::F64)
}

/// Writes a value. None for null.
pub(super) fn write(value: &PropertyValue) -> Option<String> {
    Some(match value {
        PropertyValue::Null => return None,
        PropertyValue::Bool(value) => value.to_string(),
        PropertyValue::U8(value) => value.to_string(),
        PropertyValue::U16(value) => value.to_string(),
        PropertyValue::U32(value) => value.to_string(),
        PropertyValue::U64(value) => value.to_string(),
        PropertyValue::I8(value) => value.to_string(),
        PropertyValue::I16(value) => value.to_string(),
        PropertyValue::I32(value) => value.to_string(),
        PropertyValue::I64(value) => value.to_string(),
        // With a point, so that it stays a floating-point number.
        PropertyValue::F32(value) if value.is_finite() => format!("{value:?}"),
        PropertyValue::F64(value) if value.is_finite() => format!("{value:?}"),
        other => quoted(&text(other)),
    })
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\\\""))
}

/// The text of a value that is quoted, or a string of a batch.
pub(super) fn text(value: &PropertyValue) -> String {
    match value {
        PropertyValue::String(text) | PropertyValue::Uri(text) => text.to_string(),
        PropertyValue::Char(char) => char.to_string(),
        PropertyValue::DateTime(at) => date::write(*at).unwrap_or_else(|| at.to_string()),
        PropertyValue::DateTimeOffset(ticks) => {
            let at = Timestamp::from_millis(ticks.saturating_sub(EPOCH_TICKS).div_euclid(10_000));
            date::write(at).unwrap_or_else(|| at.to_string())
        }
        PropertyValue::TimeSpan(ticks) => span(*ticks),
        PropertyValue::Uuid(bytes) => uuid::Uuid::from_bytes(*bytes).to_string(),
        PropertyValue::Decimal(bytes) => hex(bytes),
        PropertyValue::Bytes(bytes) => hex(bytes),
        PropertyValue::F32(value) => value.to_string(),
        PropertyValue::F64(value) => value.to_string(),
        other => write(other).unwrap_or_default(),
    }
}

/// The form `c` of .NET: `[-][d.]hh:mm:ss[.fffffff]`.
fn span(ticks: i64) -> String {
    let sign = if ticks < 0 { "-" } else { "" };
    let ticks = ticks.unsigned_abs();
    let (seconds, fraction) = (ticks / 10_000_000, ticks % 10_000_000);
    let days = if seconds >= 86_400 { format!("{}.", seconds / 86_400) } else { String::new() };
    let fraction = if fraction > 0 { format!(".{fraction:07}") } else { String::new() };
    format!("{sign}{days}{:02}:{:02}:{:02}{fraction}", seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> PropertyValue {
        PropertyValue::DateTime(Timestamp::from_millis(millis))
    }

    /// Rules: HT-14.
    #[test]
    fn values_are_read_by_their_form() {
        for (text, value) in [
            ("\"Sun, 06 Nov 1994 08:49:37 GMT\"", at(784_111_777_000)),
            ("\"Sunday, 06-Nov-94 08:49:37 GMT\"", "Sunday, 06-Nov-94 08:49:37 GMT".into()),
            ("Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 GMT".into()),
            ("\"high\"", "high".into()),
            ("High", "High".into()),
            ("\"a\\\"b\\\"", "a\"b\\".into()),
            ("\"5\"", "5".into()),
            ("true", true.into()),
            ("false", false.into()),
            ("True", "True".into()),
            ("5", 5_i64.into()),
            ("-5", (-5_i64).into()),
            ("9223372036854775807", i64::MAX.into()),
            ("9223372036854775808", 9_223_372_036_854_775_808_f64.into()),
            ("5.5", 5.5_f64.into()),
            ("1e3", 1_000_f64.into()),
            ("1e999", "1e999".into()),
            ("inf", "inf".into()),
            ("NaN", "NaN".into()),
            ("0x10", "0x10".into()),
            ("", "".into()),
            ("\"", "\"".into()),
            ("\"\"", "".into()),
        ] {
            assert_eq!(read(text), value, "{text}");
        }
    }

    /// Rules: HT-13, HT-15.
    #[test]
    fn values_are_written_by_their_type() {
        for (value, text) in [
            ("a \"b\"".into(), "\"a \\\"b\\\"\""),
            (at(784_111_777_999), "\"Sun, 06 Nov 1994 08:49:37 GMT\""),
            (true.into(), "true"),
            (5_u8.into(), "5"),
            (u64::MAX.into(), "18446744073709551615"),
            (1_f64.into(), "1.0"),
            (1e21_f64.into(), "1e21"),
            (f64::NAN.into(), "\"NaN\""),
            ('a'.into(), "\"a\""),
            (PropertyValue::Uuid([0x11; 16]), "\"11111111-1111-1111-1111-111111111111\""),
            (PropertyValue::TimeSpan(-36_610_000_001), "\"-01:01:01.0000001\""),
            (PropertyValue::TimeSpan(864_000_000_000), "\"1.00:00:00\""),
            (PropertyValue::Uri("http://a/".into()), "\"http://a/\""),
            (PropertyValue::DateTimeOffset(EPOCH_TICKS), "\"Thu, 01 Jan 1970 00:00:00 GMT\""),
            (at(-1), "\"1969-12-31T23:59:59.999Z\""),
        ] {
            assert_eq!(write(&value).as_deref(), Some(text));
        }
        assert_eq!(write(&PropertyValue::Null), None);
    }
}
