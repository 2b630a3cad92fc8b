//! Bodies, deflated in one call.

use zlib_rs::{DeflateConfig, ReturnCode, compress_slice};

/// What the encoder writes around the deflated bytes.
#[derive(Clone, Copy)]
pub(super) enum Around {
    #[cfg(feature = "gzip")]
    Gzip,
    #[cfg(feature = "deflate")]
    Zlib,
}

/// How near the end of its window an encoder does not look back.
const MARGIN: usize = 262;

/// `None` if the result would not be smaller than the body.
pub(super) fn compress(body: &[u8], level: u32, around: Around) -> Option<Vec<u8>> {
    // The window is no larger than the body, and the buffer of symbols is of its size: both are allocated and cleared.
    let bits = (body.len() + MARGIN).next_power_of_two().ilog2().clamp(9, 15);
    let bits = i32::try_from(bits).ok()?;
    let config = DeflateConfig {
        // Level 1 of the crate has no codes of its own for a body, which is then a fifth larger than by level 2.
        level: i32::try_from(level.max(2)).ok()?,
        window_bits: match around {
            #[cfg(feature = "gzip")]
            Around::Gzip => bits + 16,
            #[cfg(feature = "deflate")]
            Around::Zlib => bits,
        },
        mem_level: (bits - 6).min(8),
        ..DeflateConfig::default()
    };
    // What does not get smaller is not sent.
    let mut out = vec![0; body.len()];
    let (written, code) = compress_slice(&mut out, body, config);
    let len = written.len();
    if code != ReturnCode::Ok {
        return None;
    }
    out.truncate(len);
    out.shrink_to_fit();
    Some(out)
}
