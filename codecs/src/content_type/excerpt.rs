/// Returns the part of a foreign text that a description may have: at most 64 characters, all of them printable US-ASCII.
pub(crate) fn excerpt(text: &str) -> String {
    const MAX_CHARACTERS: usize = 64;
    if text.len() <= MAX_CHARACTERS && text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return text.to_owned();
    }
    let mut out = String::new();
    for character in text.chars() {
        let before = out.len();
        if matches!(character, ' '..='~') {
            out.push(character);
        } else {
            out.extend(character.escape_default());
        }
        if out.len() > MAX_CHARACTERS {
            out.truncate(before);
            break;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::excerpt;

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(excerpt("a\r\nb\0\u{1b}[0m"), "a\\r\\nb\\u{0}\\u{1b}[0m");
    }

    #[test]
    fn the_cut_never_splits_an_escape() {
        let text = format!("{}{}", "x".repeat(62), "\u{1F600}");
        assert_eq!(excerpt(&text), "x".repeat(62));
        assert_eq!(excerpt(&"y".repeat(1 << 20)).len(), 64);
    }
}
