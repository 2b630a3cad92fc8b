//! Frames (RFC 8878, 3.1), one after the other, zstd's and those that are skipped. Each is decoded in one call right into
//! the body, so that a window costs nothing, and what a frame declares is compared with the limit before it is believed.

use zstd_safe::{
    CCtx, CParameter, DCtx, ErrorCode, ResetDirective, find_frame_compressed_size, get_frame_content_size,
    is_error_kind, zstd_sys::ZSTD_ErrorCode as Code,
};

use super::{error::DecompressErrorKind as Kind, kept::Kept};

const MAGIC: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];
/// The first byte of what begins a frame to be skipped is 0x50 to 0x5F.
const SKIPPED: [u8; 3] = [0x2A, 0x4D, 0x18];

static ENCODERS: Kept<CCtx<'static>> = Kept::new();
/// One takes 160 KiB.
static DECODERS: Kept<DCtx<'static>> = Kept::new();

/// How large an encoder may be that is kept. At high levels and for large bodies it takes many MiB.
const KEPT: usize = 2 << 20;

pub(super) fn compress(body: &[u8], level: u32) -> Option<Vec<u8>> {
    let mut encoder = ENCODERS.take().or_else(CCtx::try_create)?;
    encoder.set_parameter(CParameter::CompressionLevel(level.try_into().ok()?)).ok()?;
    encoder.set_parameter(CParameter::ContentSizeFlag(true)).ok()?;
    encoder.set_parameter(CParameter::ChecksumFlag(true)).ok()?;
    // What does not get smaller is not sent.
    let mut out = Vec::with_capacity(body.len());
    let compressed = encoder.compress2(&mut out, body);
    // One that has failed takes no parameters until it is reset.
    if encoder.reset(ResetDirective::SessionAndParameters).is_ok() && encoder.sizeof() <= KEPT {
        ENCODERS.put(encoder);
    }
    compressed.ok()?;
    out.shrink_to_fit();
    Some(out)
}

pub(super) fn decompress(body: &[u8], limit: usize, over: Kind) -> Result<Vec<u8>, Kind> {
    if !body.starts_with(&MAGIC) && !is_skipped(body) {
        return Err(if is_cut(body) { Kind::Truncated } else { Kind::Syntax });
    }
    let mut decoder = DECODERS.take().unwrap_or_else(DCtx::create);
    let (mut out, mut rest) = (Vec::new(), body);
    while !rest.is_empty() {
        if is_skipped(rest) {
            rest = past_skipped(rest).ok_or(Kind::Truncated)?;
            continue;
        }
        if !rest.starts_with(&MAGIC) {
            return Err(if is_cut(rest) { Kind::Truncated } else { Kind::Trailing });
        }
        let left = limit - out.len();
        // A frame that is cut says too how much it has.
        let content = get_frame_content_size(rest).ok().flatten();
        if content.is_some_and(|content| content > left as u64) {
            return Err(over);
        }
        let size = find_frame_compressed_size(rest).map_err(kind)?;
        let (frame, after) = rest.split_at_checked(size).ok_or(Kind::Truncated)?;
        let decoded = decode(&mut decoder, frame, content, left, over)?;
        if out.is_empty() {
            out = decoded;
        } else {
            out.extend_from_slice(&decoded);
        }
        rest = after;
    }
    DECODERS.put(decoder);
    Ok(out)
}

/// What one frame says, of at most `left` bytes.
fn decode(
    decoder: &mut DCtx<'_>,
    frame: &[u8],
    content: Option<u64>,
    left: usize,
    over: Kind,
) -> Result<Vec<u8>, Kind> {
    // A size that is not declared is guessed from below.
    let declared = content.and_then(|content| content.try_into().ok());
    let mut room = declared.unwrap_or_else(|| frame.len().saturating_mul(8).min(left));
    loop {
        let mut out = Vec::with_capacity(room);
        match decoder.decompress(&mut out, frame) {
            Ok(_) if out.len() > left => return Err(over),
            Ok(_) => {
                out.shrink_to_fit();
                return Ok(out);
            }
            Err(code) if !is_error_kind(code, Code::ZSTD_error_dstSize_tooSmall) => return Err(kind(code)),
            Err(_) if declared.is_some() => return Err(Kind::Syntax),
            Err(_) if room >= left => return Err(over),
            Err(_) => room = room.saturating_mul(4).min(left),
        }
    }
}

/// Whether a frame begins and ends within its first four bytes.
fn is_cut(body: &[u8]) -> bool {
    MAGIC.starts_with(body) || (body.len() < 4 && is_skipped_start(body))
}

fn is_skipped(body: &[u8]) -> bool {
    body.len() >= 4 && is_skipped_start(body)
}

/// Whether what is there of the first four bytes is that of a frame to be skipped.
fn is_skipped_start(body: &[u8]) -> bool {
    let Some((&first, more)) = body.split_first() else { return false };
    first & 0xF0 == 0x50 && more.iter().zip(SKIPPED).all(|(&byte, expected)| byte == expected)
}

/// What follows the frame: four bytes of magic, four of length.
fn past_skipped(body: &[u8]) -> Option<&[u8]> {
    let (&length, rest) = body.get(4..)?.split_first_chunk::<4>()?;
    rest.get(usize::try_from(u32::from_le_bytes(length)).ok()?..)
}

fn kind(code: ErrorCode) -> Kind {
    if is_error_kind(code, Code::ZSTD_error_srcSize_wrong) {
        Kind::Truncated
    } else if is_error_kind(code, Code::ZSTD_error_frameParameter_windowTooLarge) {
        Kind::Window
    } else {
        Kind::Syntax
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_encoder_is_not_kept() {
        let body: Vec<u8> = (0..1_000_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 28) as u8).collect();
        let encoder = || {
            let mut encoder = CCtx::create();
            encoder.set_parameter(CParameter::CompressionLevel(19)).unwrap();
            encoder.compress2(&mut Vec::with_capacity(body.len()), &body).unwrap();
            encoder.sizeof()
        };
        assert!(encoder() > KEPT, "{}", encoder());
        assert!(compress(&body, 19).is_some());
        while let Some(kept) = ENCODERS.take() {
            assert!(kept.sizeof() <= KEPT, "{}", kept.sizeof());
        }
        assert!(compress(&body[..2_000], 3).is_some());
        assert!(ENCODERS.take().is_some());
    }
}
