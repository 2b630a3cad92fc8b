//! What HTTP calls `deflate`: the format of zlib (RFC 1950). Some senders leave its header and its checksum out, so bytes
//! without a header are read as they are.

use super::{
    deflater,
    error::DecompressErrorKind as Kind,
    inflate::{Around, Inflater},
};

pub(super) fn compress(body: &[u8], level: u32) -> Option<Vec<u8>> {
    deflater::compress(body, level, deflater::Around::Zlib)
}

pub(super) fn decompress(body: &[u8], limit: usize, over: Kind) -> Result<Vec<u8>, Kind> {
    let around = if has_header(body) { Around::Zlib } else { Around::Nothing };
    let mut inflater = Inflater::new(limit, over);
    match inflater.append(body, around)? {
        (_, []) => Ok(inflater.into_body()),
        _ => Err(Kind::Trailing),
    }
}

/// Method 8, a window of at most 32 KiB, no dictionary, and the check of both bytes (RFC 1950, 2.2). A stream without a header
/// that begins so would be a stored block whose padding is not zero, which no encoder writes.
fn has_header(body: &[u8]) -> bool {
    let [method, flags, ..] = *body else { return false };
    method & 0x0F == 8 && method >> 4 <= 7 && flags & 1 << 5 == 0 && u16::from_be_bytes([method, flags]) % 31 == 0
}
