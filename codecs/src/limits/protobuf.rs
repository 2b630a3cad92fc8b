//! A walk over the fields of one protobuf message. Only the schema determines the contents of a length-delimited field, so only
//! groups and the outer message are followed; inside, the reads of the decoder are counted.

use bytes::Buf;

use super::cursor::Cursor;
use crate::{DecodeError, DecodeErrorKind, Limits};

/// Checks wire types, lengths, the nesting of groups and the number of fields.
pub(crate) fn check(body: &[u8], limits: &Limits) -> Result<(), DecodeError> {
    let most = limits.elements.min(Limits::MAX_ELEMENTS);
    match fields(body) {
        Some(fields) if fields <= most => Ok(()),
        _ => walk(body, limits),
    }
}

/// Returns the number of fields of a well-formed message without groups. `None` decides nothing: the complete walk then finds the
/// error, if there is one.
fn fields(body: &[u8]) -> Option<usize> {
    let (mut rest, mut fields) = (body, 0);
    while !rest.is_empty() {
        let (key, value) = split_varint(rest)?;
        if key < 8 || key > u64::from(u32::MAX) {
            return None;
        }
        rest = match key & 7 {
            0 => split_varint(value)?.1,
            1 => value.get(8..)?,
            2 => {
                let (len, value) = split_varint(value)?;
                value.get(usize::try_from(len).ok()?..)?
            }
            5 => value.get(4..)?,
            _ => return None,
        };
        fields += 1;
    }
    Some(fields)
}

#[inline]
fn split_varint(body: &[u8]) -> Option<(u64, &[u8])> {
    let (&first, rest) = body.split_first()?;
    if first < 0x80 { Some((first.into(), rest)) } else { split_long_varint(body) }
}

fn split_long_varint(body: &[u8]) -> Option<(u64, &[u8])> {
    let len = 1 + body.iter().take(10).position(|&byte| byte < 0x80)?;
    let (varint, rest) = body.split_at_checked(len)?;
    Some((varint.iter().rev().fold(0, |value, &byte| value << 7 | u64::from(byte & 0x7f)), rest))
}

#[cold]
#[inline(never)]
fn walk(body: &[u8], limits: &Limits) -> Result<(), DecodeError> {
    let mut cursor = Cursor::new(body, limits);
    let mut groups = [0_u64; Limits::MAX_DEPTH];
    let mut depth = 0;
    while !cursor.is_at_end() {
        let key = varint(&mut cursor)?;
        let number = key >> 3;
        if number == 0 || key > u64::from(u32::MAX) {
            return Err(cursor.refuse_last(DecodeErrorKind::Syntax));
        }
        cursor.element()?;
        match key & 7 {
            0 => drop(varint(&mut cursor)?),
            1 => cursor.skip(8)?,
            2 => {
                let len = varint(&mut cursor)?;
                cursor.skip(len)?;
            }
            3 => {
                if depth == cursor.max_depth() {
                    return Err(cursor.refuse_last(DecodeErrorKind::Depth));
                }
                groups[depth] = number;
                depth += 1;
            }
            4 if depth > 0 && groups[depth - 1] == number => depth -= 1,
            5 => cursor.skip(4)?,
            _ => return Err(cursor.refuse_last(DecodeErrorKind::Syntax)),
        }
    }
    if depth == 0 { Ok(()) } else { Err(cursor.refuse(DecodeErrorKind::Truncated)) }
}

/// The bytes for a decoder. They end early once it has read more from them than from a body within the limits.
///
/// The decoder reads two or three times for a field and once for an element of a packed one: at most three times for each
/// element that [`Limits::elements`] permits, and at least once.
pub(crate) struct Counted<'b> {
    rest: &'b [u8],
    left: usize,
    is_over: bool,
}

impl<'b> Counted<'b> {
    pub(crate) fn new(body: &'b [u8], limits: &Limits) -> Self {
        Self { rest: body, left: 3 * limits.elements.min(Limits::MAX_ELEMENTS), is_over: false }
    }

    /// Returns whether the limit was exceeded, which explains any result of the decoder.
    pub(crate) const fn is_over(&self) -> bool {
        self.is_over
    }
}

impl Buf for Counted<'_> {
    #[inline]
    fn remaining(&self) -> usize {
        self.rest.len()
    }

    #[inline]
    fn chunk(&self) -> &[u8] {
        self.rest
    }

    #[inline]
    fn advance(&mut self, count: usize) {
        if let Some(left) = self.left.checked_sub(1) {
            self.left = left;
            self.rest = &self.rest[count..];
        } else {
            self.rest = &[];
            self.is_over = true;
        }
    }
}

fn varint(cursor: &mut Cursor<'_>) -> Result<u64, DecodeError> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = cursor.byte()?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(cursor.refuse_last(DecodeErrorKind::Syntax))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(body: &[u8]) -> Option<DecodeErrorKind> {
        check(body, &Limits::default()).err().map(|error| error.kind())
    }

    /// Attacks: 9.
    #[test]
    fn nested_groups_are_depth() {
        assert_eq!(kind(&[0x0b; 65]), Some(DecodeErrorKind::Depth));
        assert_eq!(kind(&[[0x0b; 64], [0x0c; 64]].concat()), None);
        assert_eq!(kind(&[0x0b, 0x14]), Some(DecodeErrorKind::Syntax));
        assert_eq!(kind(&[0x0b]), Some(DecodeErrorKind::Truncated));
    }

    /// Attacks: 20.
    #[test]
    fn a_length_beyond_what_a_body_may_have_is_length() {
        assert_eq!(kind(&[0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f, 1]), Some(DecodeErrorKind::Length));
        assert_eq!(kind(&[0x0a, 0x05, 1]), Some(DecodeErrorKind::Truncated));
    }

    /// Bodies of the parts of fields, cut and spoiled.
    #[test]
    fn random_bytes_pass_the_quick_browse_only_where_the_walk_takes_them() {
        const PARTS: [&[u8]; 12] = [
            &[0x08, 1],
            &[0x08, 0xff, 0x01],
            &[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
            &[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x81, 0],
            &[0x12, 0],
            &[0x12, 3, 7, 8, 9],
            &[0x82, 0x01, 0x81, 0x00, 5],
            &[0xf2, 0xff, 0xff, 0xff, 0x10, 1],
            &[0x19, 1, 2, 3, 4, 5, 6, 7, 8],
            &[0x1d, 1, 2, 3, 4],
            &[0x23, 0x24],
            &[0x00],
        ];
        let mut random = fastrand::Rng::with_seed(7);
        let limits = Limits::default().elements(6);
        let mut accepted = 0;
        for _ in 0..20_000 {
            let parts = random.usize(0..8);
            let mut body: Vec<u8> = (0..parts).flat_map(|_| PARTS[random.usize(0..PARTS.len())]).copied().collect();
            if random.bool() {
                body.truncate(random.usize(0..=body.len()));
            }
            if random.bool() && !body.is_empty() {
                let at = random.usize(0..body.len());
                body[at] = random.u8(..);
            }
            let is_quick = fields(&body).is_some_and(|fields| fields <= 6);
            let walked = walk(&body, &limits);
            assert!(!is_quick || walked.is_ok(), "{body:x?}: {walked:?}");
            accepted += usize::from(is_quick);
        }
        assert!(accepted > 1_000, "{accepted}");
    }

    #[test]
    fn keys_and_varints_that_are_none_are_syntax() {
        assert_eq!(kind(&[0x00, 0]), Some(DecodeErrorKind::Syntax));
        assert_eq!(kind(&[0x0e]), Some(DecodeErrorKind::Syntax));
        assert_eq!(kind(&[[0x08].as_slice(), &[0xff; 11]].concat()), Some(DecodeErrorKind::Syntax));
    }
}
