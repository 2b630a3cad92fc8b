//! Base64 (RFC 4648), the text of bytes in XML.

use base64::{Engine, engine::general_purpose::STANDARD};

pub(super) fn encode(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Returns the bytes, or `None` if the text is not base64. White space is ignored.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    let is_space = |character: char| matches!(character, ' ' | '\t' | '\r' | '\n');
    if text.contains(is_space) {
        return STANDARD.decode(text.replace(is_space, "")).ok();
    }
    STANDARD.decode(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_in_base64_is_ignored_and_padding_is_required() {
        assert_eq!(decode(" Zm 9v\r\nYg==\t").as_deref(), Some(&b"foob"[..]));
        assert_eq!(decode("").as_deref(), Some(&b""[..]));
        for text in ["Z", "Zg", "Zg=", "Zg==Zg==", "Zm-v", "="] {
            assert_eq!(decode(text), None, "{text}");
        }
    }
}
