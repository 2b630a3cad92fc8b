//! One frame (RFC 8878, 3.1.1). The header is read here, so that its numbers are checked before any memory is taken, and
//! the decoder is given a header of ours: with the smallest window that a block needs it says after each block how much
//! there is. It forgets nothing of what it has not handed out, so a match may still look back as far as the frame says.

use std::{
    io::ErrorKind,
    panic::{AssertUnwindSafe, catch_unwind},
};

use ruzstd::{
    decoding::{BlockDecodingStrategy, FrameDecoder, errors::FrameDecoderError},
    encoding::{CompressionLevel, compress_to_vec},
};

use super::error::DecompressErrorKind as Kind;

const MAGIC: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];
/// The largest window: 2 to the power of 23 bytes.
const WINDOW: u64 = 8 << 20;
/// What one block holds at most: 128 KiB.
const BLOCK: usize = 128 << 10;
/// The descriptor of a window of 128 KiB.
const WINDOW_OF_A_BLOCK: u8 = 7 << 3;
const CHECKSUM: u8 = 1 << 2;

pub(super) fn compress(body: &[u8]) -> Vec<u8> {
    compress_to_vec(body, CompressionLevel::Fastest)
}

pub(super) fn decompress(body: &[u8], limit: usize, over: Kind) -> Result<Vec<u8>, Kind> {
    let header = Header::read(body)?;
    if header.content.is_some_and(|content| content > limit as u64) {
        return Err(over);
    }
    // The decoder has assertions on what a frame says.
    catch_unwind(AssertUnwindSafe(|| header.decode(limit, over))).unwrap_or(Err(Kind::Syntax))
}

struct Header<'b> {
    checksum: bool,
    content: Option<u64>,
    blocks: &'b [u8],
}

impl<'b> Header<'b> {
    fn read(body: &'b [u8]) -> Result<Self, Kind> {
        let rest = body.strip_prefix(&MAGIC).ok_or(Kind::Syntax)?;
        let (&descriptor, mut rest) = rest.split_first().ok_or(Kind::Truncated)?;
        let is_single = descriptor & 1 << 5 != 0;
        // A reserved bit, or a dictionary.
        if descriptor & (1 << 3 | 0b11) != 0 {
            return Err(Kind::Syntax);
        }
        let mut window = 0;
        if !is_single {
            let (&byte, after) = rest.split_first().ok_or(Kind::Truncated)?;
            let base = 1_u64 << (10 + (byte >> 3));
            window = base + base / 8 * u64::from(byte & 0b111);
            rest = after;
        }
        let size = match descriptor >> 6 {
            0 => usize::from(is_single),
            flag => 1 << flag,
        };
        let (field, blocks) = rest.split_at_checked(size).ok_or(Kind::Truncated)?;
        let mut bytes = [0; 8];
        bytes[..size].copy_from_slice(field);
        // Of two bytes 256 are taken away, so that they do not say what one can.
        let content = u64::from_le_bytes(bytes) + if size == 2 { 256 } else { 0 };
        if window > WINDOW {
            return Err(Kind::Window);
        }
        Ok(Self { checksum: descriptor & CHECKSUM != 0, content: (size > 0).then_some(content), blocks })
    }

    fn decode(&self, limit: usize, over: Kind) -> Result<Vec<u8>, Kind> {
        let [a, b, c, d] = MAGIC;
        let header = [a, b, c, d, if self.checksum { CHECKSUM } else { 0 }, WINDOW_OF_A_BLOCK];
        let mut decoder = FrameDecoder::new();
        decoder.init(&header[..]).map_err(|error| kind(&error))?;
        let mut blocks = self.blocks;
        while !decoder.is_finished() {
            decoder.decode_blocks(&mut blocks, BlockDecodingStrategy::UptoBlocks(1)).map_err(|error| kind(&error))?;
            let past_a_block = decoder.can_collect();
            let decoded = if decoder.is_finished() || past_a_block == 0 { past_a_block } else { past_a_block + BLOCK };
            if decoded > limit {
                return Err(over);
            }
        }
        let mut out = Vec::with_capacity(decoder.can_collect());
        decoder.collect_to_writer(&mut out).map_err(|_| Kind::Syntax)?;
        let is_whole = self.content.is_none_or(|content| content == out.len() as u64);
        let is_right = !self.checksum || decoder.get_checksum_from_data() == decoder.get_calculated_checksum();
        if !is_whole || !is_right {
            return Err(Kind::Syntax);
        }
        if blocks.is_empty() { Ok(out) } else { Err(Kind::Trailing) }
    }
}

/// Whether the body ended in the middle, or is wrong.
fn kind(error: &FrameDecoderError) -> Kind {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == ErrorKind::UnexpectedEof) {
            return Kind::Truncated;
        }
        cause = error.source();
    }
    Kind::Syntax
}
