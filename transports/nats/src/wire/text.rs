//! Text in header values, and in one token of a subject, which permit few characters.

use std::borrow::Cow;

/// Returns a text as the value of a header: control characters of ASCII, `%`, and white space at the ends become `%XX` for each
/// of their bytes, an empty text `%`.
pub(crate) fn escape(text: &str) -> Cow<'_, str> {
    if text.is_empty() {
        return Cow::Borrowed("%");
    }
    let inside = text.trim();
    if inside.len() == text.len() && !text.bytes().any(is_special) {
        return Cow::Borrowed(text);
    }
    let mut out = Vec::with_capacity(text.len() + 16);
    let (before, after) = text.split_at(text.len() - text.trim_start().len());
    before.bytes().for_each(|byte| push_hex(&mut out, b'%', byte));
    for &byte in after.trim_end().as_bytes() {
        if is_special(byte) { push_hex(&mut out, b'%', byte) } else { out.push(byte) }
    }
    after[after.trim_end().len()..].bytes().for_each(|byte| push_hex(&mut out, b'%', byte));
    // Whole characters were replaced, by ASCII.
    Cow::Owned(String::from_utf8(out).unwrap_or_default())
}

/// Returns a MessageId as the value of `Nats-Msg-Id`, which other clients set and read unchanged. An id that a header cannot have is
/// escaped, and so is one that reads as an escaped one: two ids never have the same header.
pub(crate) fn plain_id(id: &str) -> Cow<'_, str> {
    let is_plain = id.trim().len() == id.len() && !id.bytes().any(|byte| byte.is_ascii_control());
    if is_plain && unescape(id).is_none_or(|read| read == id) && !id.is_empty() {
        Cow::Borrowed(id)
    } else {
        escape(id)
    }
}

/// Returns a text with `%XX` in place of each special byte.
pub(super) fn percent(text: &str, is_special: impl Fn(u8) -> bool) -> Cow<'_, str> {
    if !text.bytes().any(&is_special) {
        return Cow::Borrowed(text);
    }
    let mut out = Vec::with_capacity(text.len() + 16);
    for byte in text.bytes() {
        if is_special(byte) { push_hex(&mut out, b'%', byte) } else { out.push(byte) }
    }
    // Characters outside ASCII are special as a whole, or not at all.
    String::from_utf8(out).map_or(Cow::Borrowed(text), Cow::Owned)
}

fn is_special(byte: u8) -> bool {
    byte == b'%' || byte.is_ascii_control()
}

/// Reverses [`escape`]. `None` for a text that it does not write.
pub(crate) fn unescape(value: &str) -> Option<Cow<'_, str>> {
    if value == "%" {
        return Some(Cow::Borrowed(""));
    }
    if !value.contains('%') {
        return Some(Cow::Borrowed(value));
    }
    String::from_utf8(unhex(value, b'%')?).ok().map(Cow::Owned)
}

/// Returns a text as one token of a subject, or as part of the name of a stream: letters, digits and `-` stay, other bytes
/// become `=XX`, an empty text `=`.
pub(crate) fn token(text: &str) -> String {
    if text.is_empty() {
        return "=".into();
    }
    let mut out = Vec::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'-' { out.push(byte) } else { push_hex(&mut out, b'=', byte) }
    }
    String::from_utf8(out).unwrap_or_default()
}

/// Reverses [`token`].
pub(crate) fn untoken(token: &str) -> Option<String> {
    if token == "=" {
        return Some(String::new());
    }
    String::from_utf8(unhex(token, b'=')?).ok()
}

fn push_hex(out: &mut Vec<u8>, note: u8, byte: u8) {
    out.extend([note, digit(byte >> 4), digit(byte & 15)]);
}

fn unhex(text: &str, note: u8) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        out.push(if byte == note { number(bytes.next()?)? << 4 | number(bytes.next()?)? } else { byte });
    }
    Some(out)
}

fn digit(nibble: u8) -> u8 {
    if nibble < 10 { b'0' + nibble } else { b'A' + nibble - 10 }
}

fn number(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_text_comes_back() {
        let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| fastrand::u64(..));
        println!("replay: SEED={seed} cargo test --package consign-nats every_text_comes_back");
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..2_000 {
            let text: String = (0..random.usize(0..12))
                .map(|_| {
                    if random.bool() {
                        random.char('\0'..='\u{ff}')
                    } else {
                        *random.choice(&[' ', '%', '=', '.']).unwrap()
                    }
                })
                .collect();
            let value = escape(&text);
            assert!(!value.is_empty() && !value.chars().any(|char| char.is_ascii_control()), "{value:?}");
            assert_eq!(value.trim(), value, "{text:?}");
            assert_eq!(unescape(&value).as_deref(), Some(&*text), "{text:?}");
            let token = token(&text);
            assert!(token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-=".contains(&byte)), "{token:?}");
            assert_eq!(untoken(&token).as_deref(), Some(&*text));
        }
    }

    #[test]
    fn two_ids_have_two_headers() {
        for (id, header) in [
            ("order-7", "order-7"),
            ("50%", "50%"),
            ("a%zz", "a%zz"),
            ("a%2Fb", "a%252Fb"),
            (" a", "%20a"),
            ("%20a", "%2520a"),
            ("%2520a", "%252520a"),
            ("", "%"),
            ("%", "%25"),
            ("%25", "%2525"),
            ("a\n", "a%0A"),
        ] {
            assert_eq!(plain_id(id), header, "{id:?}");
        }
        let parts = ["", " ", "%", "2", "0", "5", "%20", "%25", "\n", "%0A"];
        let ids: BTreeSet<String> =
            parts.iter().flat_map(|a| parts.iter().flat_map(move |b| parts.map(|c| format!("{a}{b}{c}")))).collect();
        let headers: BTreeSet<_> = ids.iter().map(|id| plain_id(id)).collect();
        assert_eq!(headers.len(), ids.len());
    }

    #[test]
    fn text_in_another_escape_is_refused() {
        for bad in ["%1", "a%", "%zz", "%FF"] {
            assert_eq!(unescape(bad), None, "{bad}");
        }
        assert_eq!(untoken("a=4"), None);
    }
}
