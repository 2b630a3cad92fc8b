//! Bytes as digits, to the bases 16 and 64.

/// Returns bytes as hexadecimal digits, in lower case.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    with_digits(bytes, *b"0123456789abcdef")
}

/// The same in upper case.
pub(super) fn upper_hex(bytes: &[u8]) -> String {
    with_digits(bytes, *b"0123456789ABCDEF")
}

fn with_digits(bytes: &[u8], digits: [u8; 16]) -> String {
    let digit = |nibble: u8| char::from(digits[usize::from(nibble)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// Reads pairs of hexadecimal digits, in either case. `None` for any other text.
#[must_use]
pub fn from_hex(text: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let bytes = || pairs.iter().map(|&[high, low]| Some(digit(high)? << 4 | digit(low)?)).collect();
    if rest.is_empty() { bytes() } else { None }
}

const BASE64: [u8; 64] = *b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Base64 of RFC 4648, section 4, with padding.
pub(super) fn base64(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let all = chunk.iter().fold(0_u32, |all, byte| all << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let digit = BASE64[(all >> (18 - 6 * place) & 63) as usize];
            out.push(if place <= chunk.len() { char::from(digit) } else { '=' });
        }
    }
    out
}

/// Reads base64 with its padding, and no other spelling of the same bytes.
pub(super) fn from_base64(text: &str) -> Option<Vec<u8>> {
    let (chunks, rest) = text.as_bytes().as_chunks::<4>();
    let mut out = Vec::with_capacity(chunks.len() * 3);
    for (nth, chunk) in chunks.iter().enumerate() {
        let is_last = nth + 1 == chunks.len();
        let padding = chunk.iter().rev().take_while(|byte| **byte == b'=').count();
        if padding > if is_last { 2 } else { 0 } {
            return None;
        }
        let mut all = 0_u32;
        for byte in &chunk[..4 - padding] {
            let digit = match byte {
                b'A'..=b'Z' => byte - b'A',
                b'a'..=b'z' => byte - b'a' + 26,
                b'0'..=b'9' => byte - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                _ => return None,
            };
            all = all << 6 | u32::from(digit);
        }
        let bytes = (all << (6 * padding)).to_be_bytes();
        let (kept, left) = bytes[1..].split_at(3 - padding);
        if left.iter().any(|byte| *byte != 0) {
            return None;
        }
        out.extend_from_slice(kept);
    }
    rest.is_empty().then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_those_of_the_rfc() {
        // RFC 4648, section 10.
        for (bytes, base16, base_64) in [
            ("", "", ""),
            ("f", "66", "Zg=="),
            ("fo", "666F", "Zm8="),
            ("foo", "666F6F", "Zm9v"),
            ("foob", "666F6F62", "Zm9vYg=="),
            ("fooba", "666F6F6261", "Zm9vYmE="),
            ("foobar", "666F6F626172", "Zm9vYmFy"),
        ] {
            assert_eq!((upper_hex(bytes.as_bytes()), hex(bytes.as_bytes())), (base16.into(), base16.to_lowercase()));
            assert_eq!(base64(bytes.as_bytes()), base_64);
            assert_eq!(from_hex(base16).as_deref(), Some(bytes.as_bytes()));
            assert_eq!(from_base64(base_64).as_deref(), Some(bytes.as_bytes()));
        }
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!((from_hex(&hex(&all)), from_base64(&base64(&all))), (Some(all.clone()), Some(all)));
    }

    #[test]
    fn other_spellings_are_refused() {
        for bad in
            ["Z", "Zg", "Zg=", "Zg===", "Zh==", "Zm9=", "Z===", "====", "Zg==Zg==", "Zm 8", "Zm-_", "é==", "Zg==\n"]
        {
            assert_eq!(from_base64(bad), None, "{bad}");
        }
        for bad in ["0", "0g", "+1", "é"] {
            assert_eq!(from_hex(bad), None, "{bad}");
        }
    }
}
