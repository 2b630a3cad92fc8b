//! Depth and element counts of a JSON text. They are exact, at every size, also in fields that the type ignores, and with all
//! features of the parser.

use crate::{DecodeError, DecodeErrorKind, Limits};

/// Checks [`Limits::depth`] and [`Limits::elements`].
///
/// A text nested deeper than the limit has more opening brackets than the limit, and one with too many elements has too
/// many commas and brackets: a container has one element more than commas, or none. Counting bytes vectorises, so a body
/// that is within both, and nearly all are, pays almost nothing; only the others are walked.
#[inline]
pub(crate) fn check(text: &[u8], limits: &Limits) -> Result<(), DecodeError> {
    // An opening bracket or a separator takes a byte.
    if text.len() <= limits.depth.min(limits.elements).min(Limits::MAX_DEPTH) {
        return Ok(());
    }
    let depth = limits.depth.min(Limits::MAX_DEPTH);
    let elements = limits.elements.min(Limits::MAX_ELEMENTS);
    // `[` and `{` differ in one bit.
    let deep = text.len() > depth && count(text, |byte| byte | 0x20 == b'{') > depth;
    // An element takes at least two bytes. Up to here there are no more brackets than the depth.
    let wide = text.len() / 2 >= elements && count(text, |byte| byte == b',') + depth > elements;
    if deep || wide { walk(text, depth, elements) } else { Ok(()) }
}

#[inline]
fn count(text: &[u8], is: impl Fn(u8) -> bool) -> usize {
    // Sums of at most 255 fit a byte, which keeps a whole vector of counters in a register.
    text.chunks(255).map(|chunk| usize::from(chunk.iter().map(|&byte| u8::from(is(byte))).sum::<u8>())).sum()
}

/// Follows brackets and commas outside strings. Brackets need not match: up to the first that does not, the depth is
/// right, and there the parser stops.
#[cold]
fn walk(text: &[u8], max_depth: usize, max_elements: usize) -> Result<(), DecodeError> {
    // An open container counts as one element until it turns out to be empty.
    let (mut depth, mut elements) = (0_usize, 0);
    let over = |at| Err(DecodeError::new(DecodeErrorKind::Count).at(super::text_position(text, at)));
    let mut bytes = text.iter().enumerate();
    while let Some((at, &byte)) = bytes.next() {
        match byte {
            b'"' => {
                while let Some((_, &byte)) = bytes.next() {
                    match byte {
                        b'\\' => drop(bytes.next()),
                        b'"' => break,
                        _ => {}
                    }
                }
            }
            b'[' | b'{' => {
                if depth == max_depth {
                    return Err(DecodeError::new(DecodeErrorKind::Depth).at(super::text_position(text, at)));
                }
                // The container around it has an element: this one.
                if elements > max_elements {
                    return over(at);
                }
                depth += 1;
                elements += 1;
            }
            b']' | b'}' => {
                depth = depth.saturating_sub(1);
                if is_empty(&text[..at]) {
                    elements = elements.saturating_sub(1);
                }
                if elements > max_elements {
                    return over(at);
                }
            }
            b',' => {
                elements += 1;
                if elements > max_elements {
                    return over(at);
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Returns whether the container that is closed after this text is empty.
fn is_empty(before: &[u8]) -> bool {
    before.iter().rev().find(|byte| !byte.is_ascii_whitespace()).is_some_and(|byte| byte | 0x20 == b'{')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(text: &str, limits: &Limits) -> Option<DecodeErrorKind> {
        check(text.as_bytes(), limits).err().map(|error| error.kind())
    }

    #[test]
    fn depth_is_exact() {
        let limits = Limits::default().depth(3);
        assert_eq!(kind("[[[]]]", &limits), None);
        assert_eq!(kind("[[[[]]]]", &limits), Some(DecodeErrorKind::Depth));
        assert_eq!(kind("[[],[],[],[[]]]", &limits), None);
        assert_eq!(kind(r#"{"a":{"b":{"c":{}}}}"#, &limits), Some(DecodeErrorKind::Depth));
    }

    #[test]
    fn brackets_in_strings_do_not_count() {
        let limits = Limits::default().depth(1);
        assert_eq!(kind(r#"["[[[[", "\"[[[", "\\", "{{{"]"#, &limits), None);
        assert_eq!(kind(r#"["\\", [1]]"#, &limits), Some(DecodeErrorKind::Depth));
    }

    /// Rules: P-124.
    #[test]
    fn elements_are_counted_over_the_whole_text() {
        let limits = Limits::default().elements(3);
        assert_eq!(kind("[1,2,3]", &limits), None);
        assert_eq!(kind("[1,2,3,4]", &limits), Some(DecodeErrorKind::Count));
        assert_eq!(kind("[[ ],{},[\n]]", &limits), None);
        assert_eq!(kind("[[1,2]]", &limits), None);
        assert_eq!(kind("[[[[]]]]", &limits), None);
        for over in ["[[1,2,3]]", "[[],{},[0]]", "[[],[],[],[]]", "[[1],[2]]", "[[[[0]]]]", r#"[{"a":{"b":[0]}}]"#] {
            assert_eq!(kind(over, &limits), Some(DecodeErrorKind::Count), "{over}");
        }
        assert_eq!(kind(r#"{"a":1,"b":2,"c":3,"d":4}"#, &limits), Some(DecodeErrorKind::Count));
        assert_eq!(kind(r#"[",,,,,,"]"#, &limits), None);
    }

    #[test]
    fn an_unclosed_string_ends_the_walk() {
        let limits = Limits::default().depth(1);
        assert_eq!(kind(r#"["[[[["#, &limits), None);
        assert_eq!(kind("[\"[[[[\\", &limits), None);
    }
}
