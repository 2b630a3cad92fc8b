use std::fmt::Write;

/// Bytes of one line.
const LINE: usize = 16;

/// The first `max` bytes, as offset, hexadecimal digits and printable ASCII.
pub(super) fn dump(bytes: &[u8], max: usize) -> String {
    let mut text = String::new();
    for (line, bytes) in bytes[..bytes.len().min(max)].chunks(LINE).enumerate() {
        let _ = write!(text, "{:08x} ", line * LINE);
        for at in 0..LINE {
            let _ = match bytes.get(at) {
                Some(byte) => write!(text, " {byte:02x}"),
                None => write!(text, "   "),
            };
        }
        let printable = |&byte: &u8| if byte == b' ' || byte.is_ascii_graphic() { char::from(byte) } else { '.' };
        text.push_str("  ");
        text.extend(bytes.iter().map(printable));
        text.push('\n');
    }
    text
}

/// Bytes as digits alone, for a form.
pub(super) fn digits(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The bytes of digits, with white space anywhere between bytes.
pub(super) fn parse(text: &str) -> Option<Vec<u8>> {
    let digits: String = text.split_whitespace().collect();
    if digits.len() % 2 == 1 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shown_and_read_again() {
        let bytes: Vec<u8> = (0..20).chain([b'<', 0xff]).collect();
        let shown = dump(&bytes, 100);
        assert_eq!(shown.lines().count(), 2);
        assert!(shown.lines().nth(1).unwrap().starts_with("00000010  10 11 12 13 3c ff"), "{shown}");
        assert!(shown.ends_with("....<.\n"), "{shown}");
        assert_eq!(dump(&bytes, 16).lines().count(), 1);
        assert_eq!(parse(&digits(&bytes)), Some(bytes));
        assert_eq!(parse(" 00 ff\n"), Some(vec![0, 255]));
        for wrong in ["0", "zz", "0é", "+1"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
