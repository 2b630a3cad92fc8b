//! Members (RFC 1952, 2.2), one after the other. What is around the deflated bytes is read here.

use zlib_rs::crc32::crc32;

use super::{
    deflater,
    error::DecompressErrorKind as Kind,
    inflate::{Around, Inflater},
};

const MAGIC: [u8; 3] = [0x1F, 0x8B, DEFLATE];
const HEADER: usize = 10;
const DEFLATE: u8 = 8;
const HEADER_CRC: u8 = 1 << 1;
const EXTRA: u8 = 1 << 2;
const NAME: u8 = 1 << 3;
const COMMENT: u8 = 1 << 4;
const RESERVED: u8 = 0b1110_0000;

pub(super) fn compress(body: &[u8], level: u32) -> Option<Vec<u8>> {
    deflater::compress(body, level, deflater::Around::Gzip)
}

pub(super) fn decompress(body: &[u8], limit: usize, over: Kind) -> Result<Vec<u8>, Kind> {
    let mut inflater = Inflater::new(limit, over);
    let mut rest = member(body, &mut inflater)?;
    while !rest.is_empty() {
        if !rest.iter().zip(MAGIC).all(|(&byte, magic)| byte == magic) {
            return Err(Kind::Trailing);
        }
        rest = member(rest, &mut inflater)?;
    }
    Ok(inflater.into_body())
}

/// Appends one member, and returns what follows it.
fn member<'b>(body: &'b [u8], inflater: &mut Inflater) -> Result<&'b [u8], Kind> {
    let (start, rest) = inflater.append(past_header(body)?, Around::Nothing)?;
    let out = inflater.since(start);
    let (trailer, rest) = rest.split_first_chunk::<8>().ok_or(Kind::Truncated)?;
    let [a, b, c, d, size @ ..] = *trailer;
    // The size is that modulo 2 to the power of 32.
    #[expect(clippy::cast_possible_truncation, reason = "modulo, and a limit is far below")]
    let is_right = u32::from_le_bytes([a, b, c, d]) == crc32(0, out) && u32::from_le_bytes(size) == out.len() as u32;
    if is_right { Ok(rest) } else { Err(Kind::Syntax) }
}

/// What follows the header, which may have an extra field, a name, a comment and a checksum.
fn past_header(body: &[u8]) -> Result<&[u8], Kind> {
    let (&[id1, id2, method, flags, ..], mut rest) = body.split_first_chunk::<HEADER>().ok_or(Kind::Truncated)?;
    if [id1, id2, method] != MAGIC || flags & RESERVED != 0 {
        return Err(Kind::Syntax);
    }
    if flags & EXTRA != 0 {
        let (&length, after) = rest.split_first_chunk::<2>().ok_or(Kind::Truncated)?;
        rest = after.get(usize::from(u16::from_le_bytes(length))..).ok_or(Kind::Truncated)?;
    }
    for text in [NAME, COMMENT] {
        if flags & text != 0 {
            let end = rest.iter().position(|&byte| byte == 0).ok_or(Kind::Truncated)?;
            rest = &rest[end + 1..];
        }
    }
    if flags & HEADER_CRC != 0 {
        let header = &body[..body.len() - rest.len()];
        let (&crc, after) = rest.split_first_chunk::<2>().ok_or(Kind::Truncated)?;
        // The lower half.
        if crc32(0, header).to_le_bytes()[..2] != crc {
            return Err(Kind::Syntax);
        }
        rest = after;
    }
    Ok(rest)
}
