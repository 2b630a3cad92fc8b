use std::io::{ErrorKind, Read, Write};

use flate2::{Compression, bufread::GzDecoder, write::GzEncoder};

use super::error::DecompressErrorKind as Kind;

pub(super) fn compress(body: &[u8]) -> Option<Vec<u8>> {
    // The fast level: it runs between a message and its send.
    let mut encoder = GzEncoder::new(Vec::with_capacity(body.len() / 4 + 64), Compression::fast());
    encoder.write_all(body).ok()?;
    encoder.finish().ok()
}

pub(super) fn decompress(body: &[u8], limit: usize, over: Kind) -> Result<Vec<u8>, Kind> {
    let mut decoder = GzDecoder::new(body);
    let mut out = Vec::with_capacity(limit.min(body.len().saturating_mul(4)));
    let more = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    if let Err(error) = decoder.by_ref().take(more).read_to_end(&mut out) {
        return Err(if error.kind() == ErrorKind::UnexpectedEof { Kind::Truncated } else { Kind::Syntax });
    }
    if out.len() > limit {
        return Err(over);
    }
    if decoder.into_inner().is_empty() { Ok(out) } else { Err(Kind::Trailing) }
}
