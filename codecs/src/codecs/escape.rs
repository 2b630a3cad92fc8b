//! Escapes for texts of types in a trail, where some characters are separators.

use std::fmt::Write;

/// Marks the place where a text was cut.
const CUT: &str = "..";

/// Returns the text with every character percent-encoded that cannot be in a field of a trail.
pub(super) fn percent(text: &str) -> String {
    text.chars().map(encoded).collect()
}

/// Reverses [`percent`].
pub(super) fn parse(written: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(written.len());
    let mut rest = written.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()?);
        rest = after;
    }
    let text = String::from_utf8(bytes).ok()?;
    // A text has one written form only, and no error has a text of several lines.
    (percent(&text) == written && !text.contains(char::is_control)).then_some(text)
}

/// Returns the beginning of a text, cut so that it takes at most `most` characters when it is written.
pub(super) fn head(text: &str, most: usize) -> String {
    if percent(text).len() <= most {
        return text.to_owned();
    }
    let mut room = most - CUT.len();
    let kept = text.chars().take_while(|&c| take(&mut room, c));
    kept.chain(CUT.chars()).collect()
}

/// Returns the end of a text, likewise.
pub(super) fn tail(text: &str, most: usize) -> String {
    if percent(text).len() <= most {
        return text.to_owned();
    }
    let mut room = most - CUT.len();
    let kept: Vec<_> = text.chars().rev().take_while(|&c| take(&mut room, c)).collect();
    CUT.chars().chain(kept.into_iter().rev()).collect()
}

fn take(room: &mut usize, character: char) -> bool {
    match room.checked_sub(encoded(character).len()) {
        Some(left) => {
            *room = left;
            true
        }
        None => false,
    }
}

fn encoded(character: char) -> String {
    let is_plain = matches!(character, ' '..='~') && !matches!(character, '%' | ',' | ';');
    let mut text = String::new();
    let mut bytes = [0; 4];
    match character.encode_utf8(&mut bytes) {
        plain if is_plain => text.push_str(plain),
        other => {
            for byte in other.bytes() {
                // Writing to a string does not fail.
                let _ = write!(text, "%{byte:02X}");
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rules: P-123.
    #[test]
    fn texts_are_written_and_read_back() {
        for (text, written) in [
            ("lines[3].price", "lines[3].price"),
            ("one of `a`, `b`", "one of `a`%2C `b`"),
            ("[\"a;b%\"]", "[\"a%3Bb%25\"]"),
            ("gr\u{f6}\u{df}e", "gr%C3%B6%C3%9Fe"),
        ] {
            assert_eq!(percent(text), written);
            assert_eq!(parse(written).as_deref(), Some(text));
        }
    }

    /// Rules: P-123.
    #[test]
    fn other_texts_are_refused() {
        for text in ["%0A", "%1B", "%", "%2", "%2c", "%41", "%FF", "%zz", "%+1", "a;b", "\u{e9}"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    /// Rules: P-123.
    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(head("abcdef", 6), "abcdef");
        assert_eq!(head("abcdefg", 6), "abcd..");
        assert_eq!(tail("abcdefg", 6), "..defg");
        assert_eq!(tail("a,,,", 6), "..,");
        assert_eq!(head("ab\u{f6}c", 8), "ab..");
    }
}
