//! One member (RFC 1952, 2.3). What is around the deflated bytes is read here, and they are inflated right into the body:
//! a reader of streams takes a window of 32 KiB beside it for every message, and clears that first.

use std::io::Write;

use flate2::{Compression, write::GzEncoder};
use miniz_oxide::inflate::{
    TINFLStatus as Status,
    core::{DecompressorOxide, decompress as inflate, inflate_flags::TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF},
};

use super::error::DecompressErrorKind as Kind;

const HEADER: usize = 10;
const DEFLATE: u8 = 8;
const HEADER_CRC: u8 = 1 << 1;
const EXTRA: u8 = 1 << 2;
const NAME: u8 = 1 << 3;
const COMMENT: u8 = 1 << 4;
const RESERVED: u8 = 0b1110_0000;

pub(super) fn compress(body: &[u8]) -> Option<Vec<u8>> {
    // The fast level: it runs between a message and its send.
    let mut encoder = GzEncoder::new(Vec::with_capacity(body.len() / 4 + 64), Compression::fast());
    encoder.write_all(body).ok()?;
    encoder.finish().ok()
}

pub(super) fn decompress(body: &[u8], limit: usize, over: Kind) -> Result<Vec<u8>, Kind> {
    let deflated = past_header(body)?;
    let (out, rest) = inflated(deflated, limit, over)?;
    let (trailer, rest) = rest.split_first_chunk::<8>().ok_or(Kind::Truncated)?;
    let [a, b, c, d, size @ ..] = *trailer;
    // The size is that modulo 2 to the power of 32.
    #[expect(clippy::cast_possible_truncation, reason = "modulo, and a limit is far below")]
    let is_right =
        u32::from_le_bytes([a, b, c, d]) == crc32fast::hash(&out) && u32::from_le_bytes(size) == out.len() as u32;
    if !is_right {
        return Err(Kind::Syntax);
    }
    if rest.is_empty() { Ok(out) } else { Err(Kind::Trailing) }
}

/// What follows the header, which may have an extra field, a name, a comment and a checksum.
fn past_header(body: &[u8]) -> Result<&[u8], Kind> {
    let (&[id1, id2, method, flags, ..], mut rest) = body.split_first_chunk::<HEADER>().ok_or(Kind::Truncated)?;
    if [id1, id2, method] != [0x1F, 0x8B, DEFLATE] || flags & RESERVED != 0 {
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
        if crc32fast::hash(header).to_le_bytes()[..2] != crc {
            return Err(Kind::Syntax);
        }
        rest = after;
    }
    Ok(rest)
}

/// The body of at most `limit` bytes, and what follows the deflated bytes.
fn inflated(deflated: &[u8], limit: usize, over: Kind) -> Result<(Vec<u8>, &[u8]), Kind> {
    // One byte more than there may be says that there is more.
    let most = limit.saturating_add(1);
    let mut decoder = DecompressorOxide::new();
    let mut out = vec![0; most.min(deflated.len().saturating_mul(4))];
    let (mut rest, mut end) = (deflated, 0);
    loop {
        let (status, read, written) =
            inflate(&mut decoder, rest, &mut out, end, TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF);
        rest = &rest[read..];
        end += written;
        if end > limit {
            return Err(over);
        }
        match status {
            Status::Done => break,
            Status::HasMoreOutput if out.len() < most => out.resize(most.min(out.len().saturating_mul(2)), 0),
            Status::FailedCannotMakeProgress | Status::NeedsMoreInput => return Err(Kind::Truncated),
            _ => return Err(Kind::Syntax),
        }
    }
    out.truncate(end);
    Ok((out, rest))
}
