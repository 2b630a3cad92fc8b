//! A walk over one MessagePack value before a decoder sees it: no recursion, no allocation.

use super::{
    cursor::Cursor,
    fast_path::{Head, OTHER, keeps_limits, uint},
};
use crate::{
    DecodeError, DecodeErrorKind, Limits, ValueKind,
    explain::{Place, Step},
};

/// Checks depth, lengths and counts of the first value, and that the body ends with it.
pub(crate) fn check(body: &[u8], limits: &Limits) -> Result<(), DecodeError> {
    if keeps_limits(body, limits, &SIZES, head) { Ok(()) } else { walk(body, limits) }
}

/// The sizes of values whose marker determines them.
const SIZES: [u8; 256] = {
    let mut sizes = [1; 256];
    let mut marker = 0x80_u8;
    while marker < 0xe0 {
        sizes[marker as usize] = match marker {
            short @ 0xa0..=0xbf => 1 + (short & 0x1f),
            0xc0 | 0xc2 | 0xc3 => 1,
            0xcc | 0xd0 => 2,
            0xcd | 0xd1 => 3,
            0xca | 0xce | 0xd2 => 5,
            0xcb | 0xcf | 0xd3 => 9,
            _ => OTHER,
        };
        marker += 1;
    }
    sizes
};

#[expect(clippy::inline_always, reason = "the quick look is measured, and this has other callers than that")]
#[inline(always)]
fn head(marker: u8, body: &[u8], at: usize) -> Option<Head> {
    let ends = |(len, next)| Head::Ends(next + len);
    let array = |(elements, next)| Head::Contains(next, elements, 1);
    let map = |(elements, next)| Head::Contains(next, elements, 2);
    match marker {
        short @ 0x80..=0x8f => Some(Head::Contains(at, usize::from(short & 0x0f), 2)),
        short @ 0x90..=0x9f => Some(Head::Contains(at, usize::from(short & 0x0f), 1)),
        0xc4 | 0xd9 => uint::<1>(body, at).map(ends),
        0xc5 | 0xda => uint::<2>(body, at).map(ends),
        0xc6 | 0xdb => uint::<4>(body, at).map(ends),
        0xdc => uint::<2>(body, at).map(array),
        0xdd => uint::<4>(body, at).map(array),
        0xde => uint::<2>(body, at).map(map),
        0xdf => uint::<4>(body, at).map(map),
        // Extensions are rare, and a marker that is never used is refused.
        _ => None,
    }
}

#[cold]
#[inline(never)]
fn walk(body: &[u8], limits: &Limits) -> Result<(), DecodeError> {
    let mut cursor = Cursor::new(body, limits);
    value(&mut cursor)?;
    cursor.end().map_err(|error| match of_msgpackr(body) {
        Some(detail) => error.with_detail(detail),
        None => error,
    })
}

/// Returns what an encoder of Node has written, if a body that goes on after its value has an extension of it: its value follows the
/// extension, outside of it.
#[cold]
fn of_msgpackr(body: &[u8]) -> Option<String> {
    let mut at = 0;
    loop {
        let kind = match *body.get(at)? {
            0xd4..=0xd8 => body.get(at + 1),
            0xc7 => body.get(at + 2),
            _ => None,
        };
        match kind {
            Some(kind @ 0x72) => {
                return Some(format!(
                    "records of msgpackr (extension {kind}) are not supported; encode with `useRecords: false`"
                ));
            }
            // A set, a regular expression, an error, and the number of an object that others refer to.
            Some(kind @ (0x73 | 0x78 | 0x65 | 0x69)) => {
                return Some(format!(
                    "objects of msgpackr (extension {kind}) are not supported; encode without `structuredClone`"
                ));
            }
            _ => {}
        }
        at = match container(body, at) {
            Some((first, ..)) => first,
            None => after(body, at, 1)?,
        };
    }
}

fn value(cursor: &mut Cursor<'_>) -> Result<(), DecodeError> {
    // How many values each open container still expects; an entry of a map is two.
    let mut open = [0_usize; Limits::MAX_DEPTH];
    let mut depth = 0;
    let mut left = 1;
    loop {
        while left == 0 {
            if depth == 0 {
                return Ok(());
            }
            depth -= 1;
            left = open[depth];
        }
        left -= 1;
        let inside = match cursor.byte()? {
            0x00..=0x7f | 0xc0 | 0xc2 | 0xc3 | 0xe0..=0xff => continue,
            0xcc | 0xd0 => Next::Bytes(1),
            0xcd | 0xd1 => Next::Bytes(2),
            0xca | 0xce | 0xd2 => Next::Bytes(4),
            0xcb | 0xcf | 0xd3 => Next::Bytes(8),
            short @ 0xa0..=0xbf => Next::Bytes(u64::from(short & 0x1f)),
            0xc4 | 0xd9 => Next::Bytes(cursor.uint(1)?),
            0xc5 | 0xda => Next::Bytes(cursor.uint(2)?),
            0xc6 | 0xdb => Next::Bytes(cursor.uint(4)?),
            // Extensions: one byte of type, then the data.
            fixed @ 0xd4..=0xd8 => Next::Bytes(1 + (1 << (fixed - 0xd4))),
            0xc7 => Next::Bytes(1 + cursor.uint(1)?),
            0xc8 => Next::Bytes(1 + cursor.uint(2)?),
            0xc9 => Next::Bytes(1 + cursor.uint(4)?),
            short @ 0x90..=0x9f => Next::Values(u64::from(short & 0x0f), 1),
            0xdc => Next::Values(cursor.uint(2)?, 1),
            0xdd => Next::Values(cursor.uint(4)?, 1),
            short @ 0x80..=0x8f => Next::Values(u64::from(short & 0x0f), 2),
            0xde => Next::Values(cursor.uint(2)?, 2),
            0xdf => Next::Values(cursor.uint(4)?, 2),
            0xc1 => return Err(cursor.refuse_last(DecodeErrorKind::Syntax)),
        };
        match inside {
            Next::Bytes(len) => cursor.skip(len)?,
            Next::Values(count, each) => {
                #[cfg(sabotage)]
                let has_defect = std::env::var_os("CONSIGN_SABOTAGE").is_some_and(|defect| defect == "SkipDepthCheck");
                #[cfg(not(sabotage))]
                let has_defect = false;
                if depth == cursor.max_depth() && !(has_defect && depth < open.len()) {
                    return Err(cursor.refuse_last(DecodeErrorKind::Depth));
                }
                open[depth] = left;
                depth += 1;
                left = cursor.count(count, each)?;
            }
        }
    }
}

enum Next {
    Bytes(u64),
    Values(u64, usize),
}

/// Returns the start of the value that these steps lead to. The body has passed [`check`].
#[cold]
pub(crate) fn find(body: &[u8], steps: &[Step]) -> Option<usize> {
    let mut at = 0;
    for step in steps {
        let (next, elements, each) = match (container(body, at), step.place()) {
            (Some(container), _) => container,
            // The name of a variant without data stands for itself.
            (None, Place::Key(0)) => return Some(at),
            // A byte string is read as a sequence as well.
            (None, Place::Element(_)) if matches!(body.get(at), Some(0xc4..=0xc6)) => return Some(at),
            (None, _) => return None,
        };
        let before = match step.place() {
            Place::Element(element) if each == 1 && element < elements => element,
            Place::Key(entry) if each == 2 && entry < elements => 2 * entry,
            Place::Value(entry) if each == 2 && entry < elements => 2 * entry + 1,
            Place::Element(_) | Place::Key(_) | Place::Value(_) => return None,
        };
        at = after(body, next, before)?;
    }
    Some(at)
}

/// Returns the kind of the value that starts here.
#[cold]
pub(crate) fn kind(body: &[u8], at: usize) -> Option<ValueKind> {
    Some(match *body.get(at)? {
        0x00..=0x7f | 0xcc..=0xd3 | 0xe0..=0xff => ValueKind::Integer,
        0x80..=0x8f | 0xde | 0xdf => ValueKind::Map,
        0x90..=0x9f | 0xdc | 0xdd => ValueKind::Array,
        0xa0..=0xbf | 0xd9..=0xdb => ValueKind::Text,
        0xc0 => ValueKind::Null,
        0xc2 | 0xc3 => ValueKind::Boolean,
        0xc4..=0xc6 => ValueKind::Bytes,
        0xca | 0xcb => ValueKind::Float,
        // Extensions have no kind here.
        0xc1 | 0xc7..=0xc9 | 0xd4..=0xd8 => return None,
    })
}

/// Returns the first element of the container that starts here, how many there are, and of how many values each.
fn container(body: &[u8], at: usize) -> Option<(usize, usize, usize)> {
    match head(*body.get(at)?, body, at + 1)? {
        Head::Contains(next, elements, each) => Some((next, elements, each)),
        Head::Ends(_) => None,
    }
}

/// Returns the position after so many values.
fn after(body: &[u8], mut at: usize, values: usize) -> Option<usize> {
    let mut left = values;
    while left > 0 {
        left -= 1;
        let marker = *body.get(at)?;
        let size = usize::from(SIZES[usize::from(marker)]);
        at = match marker {
            0xd4..=0xd8 => at + 2 + (1 << (marker - 0xd4)),
            0xc7 => uint::<1>(body, at + 1).map(|(len, next)| next + 1 + len)?,
            0xc8 => uint::<2>(body, at + 1).map(|(len, next)| next + 1 + len)?,
            0xc9 => uint::<4>(body, at + 1).map(|(len, next)| next + 1 + len)?,
            _ if size != usize::from(OTHER) => at + size,
            _ => match head(marker, body, at + 1)? {
                Head::Ends(next) => next,
                Head::Contains(next, elements, each) => {
                    left += elements * each;
                    next
                }
            },
        };
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::{super::fast_path::says_yes_only_where, *};

    fn kind(body: &[u8]) -> Option<DecodeErrorKind> {
        check(body, &Limits::default()).err().map(|error| error.kind())
    }

    #[test]
    fn random_bytes_pass_the_quick_browse_only_where_the_walk_takes_them() {
        const HEADS: &[u8] = &[0x81, 0x82, 0x90, 0x91, 0x92, 0xa1, 0xc4, 0xcc, 0xcd, 0xd9, 0xda, 0xdc, 0xde, 0xc0];
        says_yes_only_where(HEADS, |body, limits| keeps_limits(body, limits, &SIZES, head), walk);
    }

    #[test]
    fn a_value_of_every_marker_ends_where_it_should() {
        for first in 0..=0xff_u8 {
            if first == 0xc1 {
                continue;
            }
            // Zeros serve as lengths of nothing, as data and as elements.
            let mut body = vec![first];
            while kind(&body) == Some(DecodeErrorKind::Truncated) {
                body.push(0);
            }
            assert_eq!(kind(&body), None, "{first:#x}");
            body.push(0);
            assert_eq!(kind(&body), Some(DecodeErrorKind::Trailing), "{first:#x}");
        }
        assert_eq!(kind(&[0xc1]), Some(DecodeErrorKind::Syntax));
    }

    #[test]
    fn what_follows_an_extension_begins_behind_its_type_and_its_data() {
        let extensions: [(&[u8], usize); 5] =
            [(&[0xd4], 1), (&[0xd8], 16), (&[0xc7, 2], 2), (&[0xc8, 0, 2], 2), (&[0xc9, 0, 0, 0, 2], 2)];
        for (head, data) in extensions {
            let body = [head, &[7], &[0; 16][..data], &[0xc0]].concat();
            assert_eq!(after(&body, 0, 1), Some(body.len() - 1), "{head:x?}");
        }
    }

    #[test]
    fn a_length_beyond_every_allowed_body_is_length_or_count() {
        for marker in [0xc6, 0xdb, 0xc9] {
            assert_eq!(kind(&[marker, 0xff, 0xff, 0xff, 0xff, 0, 0, 0]), Some(DecodeErrorKind::Length), "{marker:#x}");
        }
        for marker in [0xdd, 0xdf] {
            assert_eq!(kind(&[marker, 0xff, 0xff, 0xff, 0xff, 0, 0, 0]), Some(DecodeErrorKind::Count), "{marker:#x}");
        }
        assert_eq!(kind(&[0xdc, 0xff, 0xff]), Some(DecodeErrorKind::Truncated));
    }
}
