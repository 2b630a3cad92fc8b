//! Checks for texts that JSON permits and a strict reader refuses: a key twice in one object, numbers of any length.

use std::cmp::Ordering;

use crate::{DecodeError, DecodeErrorKind, Limits};

/// Digits, sign, point and exponent of one number.
const NUMBER: usize = 64;

/// Refuses a key that occurs twice in one object, compared after unescaping, and a number of more than 64 characters.
///
/// The text must have passed [`check`](super::json::check). Without recursion; n keys cost n log n comparisons whatever the
/// keys are. A text that is not JSON passes: the parser refuses it.
pub(crate) fn check(text: &str) -> Result<(), DecodeError> {
    let bytes = text.as_bytes();
    // The keys of all open objects, and where those of each container start.
    let mut keys: Vec<(u32, u32)> = Vec::new();
    let mut starts = [0_usize; Limits::MAX_DEPTH + 1];
    let mut depth = 0_usize;
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                let end = string_end(bytes, at + 1);
                let after = bytes.get(end + 1..).unwrap_or_default();
                if after.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b':') {
                    keys.push((short(at + 1), short(end)));
                }
                at = end + 1;
            }
            b'[' | b'{' => {
                depth += 1;
                let Some(start) = starts.get_mut(depth) else { return Ok(()) };
                *start = keys.len();
                at += 1;
            }
            b']' | b'}' => {
                let start = starts[depth].min(keys.len());
                check_object(text, &mut keys[start..])?;
                keys.truncate(start);
                depth = depth.saturating_sub(1);
                at += 1;
            }
            b'-' | b'0'..=b'9' => {
                let rest = &bytes[at..];
                let len = rest.iter().position(|byte| !is_number(*byte)).unwrap_or(rest.len());
                if len > NUMBER {
                    return Err(DecodeError::new(DecodeErrorKind::Syntax)
                        .with_detail("a number of more than 64 characters")
                        .at(super::text_position(bytes, at)));
                }
                at += len;
            }
            _ => at += 1,
        }
    }
    Ok(())
}

fn check_object(text: &str, keys: &mut [(u32, u32)]) -> Result<(), DecodeError> {
    let key = |&(start, end): &(u32, u32)| text.get(start as usize..end as usize).unwrap_or_default();
    if keys.len() < 2 {
        return Ok(());
    }
    keys.sort_unstable_by(|a, b| compare(key(a), key(b)).then(a.0.cmp(&b.0)));
    match keys.windows(2).find(|pair| compare(key(&pair[0]), key(&pair[1])) == Ordering::Equal) {
        Some(pair) => Err(DecodeError::new(DecodeErrorKind::DuplicateKey)
            .at(super::text_position(text.as_bytes(), (pair[1].0 as usize).saturating_sub(1)))),
        None => Ok(()),
    }
}

/// By code points, which for UTF-8 is the order of its bytes.
fn compare(a: &str, b: &str) -> Ordering {
    if a.contains('\\') || b.contains('\\') { unescape(a).cmp(unescape(b)) } else { a.cmp(b) }
}

/// Returns the code units of an escaped string as values. A lone surrogate stays unchanged: the parser refuses it.
fn unescape(text: &str) -> impl Iterator<Item = u32> + '_ {
    let mut chars = text.chars();
    std::iter::from_fn(move || {
        let char = chars.next()?;
        if char != '\\' {
            return Some(char.into());
        }
        Some(match chars.next()? {
            'b' => 0x08,
            'f' => 0x0c,
            'n' => 0x0a,
            'r' => 0x0d,
            't' => 0x09,
            'u' => {
                let first = hex(&mut chars);
                let mut ahead = chars.clone();
                if (0xd800..0xdc00).contains(&first) && ahead.next() == Some('\\') && ahead.next() == Some('u') {
                    let second = hex(&mut ahead);
                    if (0xdc00..0xe000).contains(&second) {
                        chars = ahead;
                        return Some(0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00));
                    }
                }
                first
            }
            other => other.into(),
        })
    })
}

fn hex(chars: &mut std::str::Chars<'_>) -> u32 {
    chars.by_ref().take(4).fold(0, |value, digit| value << 4 | digit.to_digit(16).unwrap_or(0))
}

/// Returns the position of the closing quote, or the end of the text.
fn string_end(bytes: &[u8], mut at: usize) -> usize {
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => return at,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

const fn is_number(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'.' | b'-' | b'+' | b'e' | b'E')
}

/// No body is larger than [`Limits::MAX_BYTES`].
fn short(offset: usize) -> u32 {
    u32::try_from(offset).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(text: &str) -> Option<DecodeErrorKind> {
        check(text).err().map(|error| error.kind())
    }

    #[test]
    fn a_key_that_stands_twice_is_refused() {
        let twice = Some(DecodeErrorKind::DuplicateKey);
        assert_eq!(kind(r#"{"a":1,"a":2}"#), twice);
        assert_eq!(kind(r#"{"a":1,"b":{"a":2},"c":[{"a":1},{"a":1}]}"#), None);
        assert_eq!(kind(r#"[{"x":{"b":1,"a":1,"b" :2}}]"#), twice);
        assert_eq!(kind(r#"{"a":{"x":1,"y":2},"a":3}"#), twice);
        assert_eq!(kind(r#"{"a":"a","b":"a"}"#), None);
    }

    #[test]
    fn keys_are_compared_after_unescaping() {
        let twice = Some(DecodeErrorKind::DuplicateKey);
        assert_eq!(kind(r#"{"a":1,"\u0061":2}"#), twice);
        assert_eq!(kind(r#"{"\n":1,"\u000A":2}"#), twice);
        assert_eq!(kind("{\"\u{1F600}\":1,\"\\ud83d\\uDE00\":2}"), twice);
        assert_eq!(kind(r#"{"\"":1,"\\":2,"\/":3}"#), None);
        assert_eq!(kind(r#"{"/":1,"\/":3}"#), twice);
    }

    #[test]
    fn a_number_has_at_most_64_characters() {
        assert_eq!(kind(&"1".repeat(64)), None);
        assert_eq!(kind(&format!("[{}]", "1".repeat(65))), Some(DecodeErrorKind::Syntax));
        assert_eq!(kind(&format!("[\"{}\"]", "1".repeat(65))), None);
    }

    #[test]
    fn invalid_json_ends_the_scan_without_a_panic() {
        for text in ["", "]", "}}}}", "\"", "\"\\", "{\"", "{\"a\"", "[\"\\u", "{\"\\ud800\":1,\"\\ud800\\u\":2}", "-"]
        {
            let _ = check(text);
        }
        let deep = "[".repeat(1_000);
        assert_eq!(kind(&deep), None);
    }
}
