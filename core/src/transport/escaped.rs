use std::fmt::{self, Write};

use crate::message::entity_path::is_hidden;

/// A text of somebody else, for a log or a span: control characters, those that hide or turn others around, and backslashes
/// are escaped, and what is longer than 256 characters is cut.
///
/// ```
/// use consign::transport::Escaped;
///
/// assert_eq!(Escaped("m-1\r\nlevel=error").to_string(), r"m-1\r\nlevel=error");
/// ```
#[derive(Clone, Copy)]
pub struct Escaped<'t>(pub &'t str);

impl Escaped<'_> {
    /// Most characters of the text that are shown.
    pub const LONGEST: usize = 256;
}

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut chars = self.0.chars();
        escape(chars.by_ref().take(Self::LONGEST), f)?;
        if chars.next().is_some() { f.write_char('…') } else { Ok(()) }
    }
}

/// As [`Escaped`], without a limit, for a text that its writer limits.
#[doc(hidden)]
pub struct EscapedWhole<'t>(pub &'t str);

impl fmt::Display for EscapedWhole<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        escape(self.0.chars(), f)
    }
}

fn escape(chars: impl Iterator<Item = char>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for char in chars {
        if char.is_control() || is_hidden(char) || char == '\\' {
            write!(f, "{}", char.escape_default())?;
        } else {
            f.write_char(char)?;
        }
    }
    Ok(())
}

impl fmt::Debug for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rules: O-30.
    /// Attacks: 55.
    #[test]
    fn characters_that_could_forge_a_line_are_escaped() {
        for (text, shown) in [
            ("order-17 é 語", "order-17 é 語"),
            ("\u{1b}[31m\u{9b}31m\0", "\\u{1b}[31m\\u{9b}31m\\u{0}"),
            ("a\r\nb\tc", "a\\r\\nb\\tc"),
            ("a\u{2028}b\u{2029}c\u{85}d", "a\\u{2028}b\\u{2029}c\\u{85}d"),
            ("a\u{202e}b\u{200b}c\u{feff}d", "a\\u{202e}b\\u{200b}c\\u{feff}d"),
            ("a\u{ad}b\u{e0100}c", "a\\u{ad}b\\u{e0100}c"),
            ("\\n", "\\\\n"),
        ] {
            assert_eq!(Escaped(text).to_string(), shown);
        }
        let long = Escaped(&"語".repeat(257)).to_string();
        assert_eq!((long.chars().count(), long.ends_with('…')), (257, true));
        assert_eq!(Escaped(&"語".repeat(256)).to_string().chars().count(), 256);
        assert_eq!(EscapedWhole(&"\n".repeat(600)).to_string(), "\\n".repeat(600));
    }
}
