//! A walk over one CBOR item before a decoder sees it: no recursion, no allocation.

use super::{
    cursor::Cursor,
    fast_path::{Head, OTHER, keeps_limits, uint},
};
use crate::{DecodeError, DecodeErrorKind, Limits};

const BYTES: u8 = 2;
const TEXT: u8 = 3;
const ARRAY: u8 = 4;
const MAP: u8 = 5;
const TAG: u8 = 6;
const BREAK: u8 = 0xff;
const INDEFINITE: u8 = 31;

/// Checks depth, lengths and counts of the first item, and that the body ends with it. A tag is a level of depth.
pub(crate) fn check(body: &[u8], limits: &Limits) -> Result<(), DecodeError> {
    if keeps_limits(body, limits, &SIZES, head) { Ok(()) } else { walk(body, limits) }
}

/// The sizes of items whose first byte determines them: integers, simple values, floats and short strings.
const SIZES: [u8; 256] = {
    let mut sizes = [OTHER; 256];
    let mut first = 0_u8;
    // 0xff, which ends other items, has no size.
    while first < 0xff {
        let (major, info) = (first >> 5, first & 0x1f);
        sizes[first as usize] = match (major, info) {
            (0 | 1 | 7, 0..=23) => 1,
            (0 | 1, 24) => 2,
            (0 | 1 | 7, 25..=27) => 1 + (1 << (info - 24)),
            (BYTES | TEXT, 0..=23) => 1 + info,
            _ => OTHER,
        };
        first += 1;
    }
    sizes
};

#[inline]
fn head(first: u8, body: &[u8], at: usize) -> Option<Head> {
    let (argument, next) = match first & 0x1f {
        short @ 0..=23 => (usize::from(short), at),
        24 => uint::<1>(body, at)?,
        25 => uint::<2>(body, at)?,
        26 => uint::<4>(body, at)?,
        // Indefinite lengths are rare, and so are lengths of eight bytes.
        _ => return None,
    };
    match first >> 5 {
        BYTES | TEXT => Some(Head::Ends(next + argument)),
        ARRAY => Some(Head::Contains(next, argument, 1)),
        MAP => Some(Head::Contains(next, argument, 2)),
        // Here it counts as an element too, which may leave a body near the limit to the walk.
        TAG => Some(Head::Contains(next, 1, 1)),
        _ => None,
    }
}

#[cold]
#[inline(never)]
fn walk(body: &[u8], limits: &Limits) -> Result<(), DecodeError> {
    let mut cursor = Cursor::new(body, limits);
    item(&mut cursor)?;
    cursor.end()
}

/// An open container: items still to come, or items seen until a break. An entry of a map is two items.
#[derive(Clone, Copy)]
enum Open {
    Left(usize),
    Seen { items: usize, each: usize },
}

fn item(cursor: &mut Cursor<'_>) -> Result<(), DecodeError> {
    let mut outer = [Open::Left(0); Limits::MAX_DEPTH];
    let mut depth = 0;
    let mut open = Open::Left(1);
    loop {
        while let Open::Left(0) = open {
            if depth == 0 {
                return Ok(());
            }
            depth -= 1;
            open = outer[depth];
        }
        let head = cursor.byte()?;
        match &mut open {
            Open::Left(_) if head == BREAK => return Err(cursor.refuse_last(DecodeErrorKind::Syntax)),
            Open::Left(left) => *left -= 1,
            Open::Seen { items, each } if head == BREAK => {
                if *items % *each != 0 {
                    return Err(cursor.refuse_last(DecodeErrorKind::Syntax));
                }
                open = Open::Left(0);
                continue;
            }
            Open::Seen { items, each } => {
                if *items % *each == 0 {
                    cursor.element()?;
                }
                *items += 1;
            }
        }
        if let Some(inside) = enter(cursor, head)? {
            if depth == cursor.max_depth() {
                return Err(cursor.refuse_last(DecodeErrorKind::Depth));
            }
            outer[depth] = open;
            depth += 1;
            open = match inside {
                Inside::Counted(count, each) => Open::Left(cursor.count(count, each)?),
                Inside::Tagged => Open::Left(1),
                Inside::UntilBreak(each) => Open::Seen { items: 0, each },
            };
        }
    }
}

enum Inside {
    Counted(u64, usize),
    Tagged,
    UntilBreak(usize),
}

/// Skips the head of an item and its bytes; the rest is its contents.
fn enter(cursor: &mut Cursor<'_>, head: u8) -> Result<Option<Inside>, DecodeError> {
    let (major, info) = (head >> 5, head & 0x1f);
    if info == INDEFINITE {
        return match major {
            BYTES | TEXT => chunks(cursor, major).map(|()| None),
            ARRAY => Ok(Some(Inside::UntilBreak(1))),
            MAP => Ok(Some(Inside::UntilBreak(2))),
            _ => Err(cursor.refuse_last(DecodeErrorKind::Syntax)),
        };
    }
    let argument = argument(cursor, info)?;
    match major {
        BYTES | TEXT => cursor.skip(argument).map(|()| None),
        ARRAY => Ok(Some(Inside::Counted(argument, 1))),
        MAP => Ok(Some(Inside::Counted(argument, 2))),
        TAG => Ok(Some(Inside::Tagged)),
        // A simple value in two bytes must need them.
        7 if info == 24 && argument < 32 => Err(cursor.refuse_last(DecodeErrorKind::Syntax)),
        _ => Ok(None),
    }
}

fn argument(cursor: &mut Cursor<'_>, info: u8) -> Result<u64, DecodeError> {
    match info {
        0..=23 => Ok(info.into()),
        24..=27 => cursor.uint(1 << (info - 24)),
        _ => Err(cursor.refuse_last(DecodeErrorKind::Syntax)),
    }
}

/// Skips the chunks of a string of indefinite length: definite strings of the same kind, up to a break.
fn chunks(cursor: &mut Cursor<'_>, major: u8) -> Result<(), DecodeError> {
    loop {
        let head = cursor.byte()?;
        if head == BREAK {
            return Ok(());
        }
        if head >> 5 != major || head & 0x1f == INDEFINITE {
            return Err(cursor.refuse_last(DecodeErrorKind::Syntax));
        }
        let len = argument(cursor, head & 0x1f)?;
        cursor.skip(len)?;
    }
}

#[cfg(test)]
mod tests {
    use super::{super::fast_path::says_yes_only_where, *};

    fn kind(body: &[u8]) -> Option<DecodeErrorKind> {
        check(body, &Limits::default()).err().map(|error| error.kind())
    }

    #[test]
    fn random_bytes_pass_the_quick_browse_only_where_the_walk_takes_them() {
        const HEADS: &[u8] =
            &[0x18, 0x19, 0x41, 0x58, 0x59, 0x62, 0x80, 0x81, 0x82, 0x98, 0xa1, 0xb8, 0xc1, 0xf8, 0xf9];
        says_yes_only_where(HEADS, |body, limits| keeps_limits(body, limits, &SIZES, head), walk);
    }

    #[test]
    fn items_end_where_they_should() {
        let bodies: [&[u8]; 12] = [
            &[0x00],
            &[0x1b, 0, 0, 0, 0, 0, 0, 0, 1],
            &[0x43, 1, 2, 3],
            &[0x5f, 0x41, 1, 0x42, 1, 2, 0xff],
            &[0x7f, 0xff],
            &[0x83, 1, 2, 3],
            &[0x9f, 1, 0x9f, 0xff, 0xff],
            &[0xa1, 0x61, b'a', 1],
            &[0xbf, 0x61, b'a', 1, 0xff],
            &[0xc2, 0x41, 1],
            &[0xf8, 32],
            &[0xf9, 0, 0],
        ];
        for body in bodies {
            assert_eq!(kind(body), None, "{body:x?}");
            assert_eq!(kind(&[body, &[0]].concat()), Some(DecodeErrorKind::Trailing), "{body:x?}");
            for end in 0..body.len() {
                assert_eq!(kind(&body[..end]), Some(DecodeErrorKind::Truncated), "{:x?}", &body[..end]);
            }
        }
    }

    #[test]
    fn bytes_outside_of_the_grammar_are_a_syntax_error() {
        let bodies: [&[u8]; 8] = [
            &[0xff],
            &[0x1c],
            &[0x1f],
            &[0xdf, 0],
            &[0x82, 0xff, 0xff],
            &[0xbf, 1, 0xff],
            &[0x5f, 0x61, b'a', 0xff],
            &[0xf8, 3],
        ];
        for body in bodies {
            assert_eq!(kind(body), Some(DecodeErrorKind::Syntax), "{body:x?}");
        }
        assert_eq!(kind(&[0x5f, 0x5f, 0xff, 0xff]), Some(DecodeErrorKind::Syntax));
    }

    /// Rules: P-124.
    #[test]
    fn counts_hold_for_indefinite_lengths() {
        let limits = Limits::default().elements(3);
        let array = |count| [&[0x9f][..], &vec![0; count], &[0xff]].concat();
        let map = |count: usize| [&[0xbf][..], &vec![0; 2 * count], &[0xff]].concat();
        assert!(check(&array(3), &limits).is_ok());
        assert!(check(&map(3), &limits).is_ok());
        let nested = |count: usize| [&[0x9f][..], &[0x81, 0].repeat(count), &[0xff]].concat();
        let tagged = |count: usize| [&[0x80 + u8::try_from(count).unwrap()][..], &[0xc1, 0].repeat(count)].concat();
        assert!(check(&tagged(3), &limits).is_ok());
        assert!(check(&nested(1), &limits).is_ok());
        for body in [array(4), map(4), nested(2), tagged(4)] {
            assert_eq!(check(&body, &limits).map_err(|error| error.kind()), Err(DecodeErrorKind::Count));
        }
    }
}
