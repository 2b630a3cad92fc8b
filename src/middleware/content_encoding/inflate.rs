//! Deflated bytes (RFC 1951), inflated right into the body: a reader of streams takes a window of 32 KiB beside it for every
//! message, and clears that first.

use miniz_oxide::inflate::{
    TINFLStatus as Status,
    core::{DecompressorOxide, decompress, inflate_flags::TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF},
};

use super::error::DecompressErrorKind as Kind;

/// A body that grows by what is inflated into it, up to a limit.
pub(super) struct Inflater {
    decoder: DecompressorOxide,
    /// Never more than one byte over the limit: that byte says that there is more.
    out: Vec<u8>,
    end: usize,
    limit: usize,
    over: Kind,
}

impl Inflater {
    pub(super) fn new(limit: usize, over: Kind) -> Self {
        Self { decoder: DecompressorOxide::new(), out: Vec::new(), end: 0, limit, over }
    }

    /// Appends what one stream of deflated bytes says. Returns where in the body it begins, and what follows the stream.
    pub(super) fn append<'b>(&mut self, deflated: &'b [u8], flags: u32) -> Result<(usize, &'b [u8]), Kind> {
        let most = self.limit.saturating_add(1);
        let start = self.end;
        let room = start.saturating_add(deflated.len().saturating_mul(4)).min(most);
        if self.out.len() < room {
            self.out.resize(room, 0);
        }
        self.decoder.init();
        let mut rest = deflated;
        loop {
            // A stream does not look back into the one before it.
            let (out, at) = (&mut self.out[start..], self.end - start);
            let flags = flags | TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF;
            let (status, read, written) = decompress(&mut self.decoder, rest, out, at, flags);
            rest = &rest[read..];
            self.end += written;
            if self.end > self.limit {
                return Err(self.over);
            }
            match status {
                Status::Done => return Ok((start, rest)),
                Status::HasMoreOutput if self.out.len() < most => {
                    self.out.resize(self.out.len().saturating_mul(2).clamp(1, most), 0);
                }
                Status::FailedCannotMakeProgress | Status::NeedsMoreInput => return Err(Kind::Truncated),
                _ => return Err(Kind::Syntax),
            }
        }
    }

    /// What was inflated from `start` on.
    #[cfg(feature = "gzip")]
    pub(super) fn since(&self, start: usize) -> &[u8] {
        &self.out[start..self.end]
    }

    pub(super) fn into_body(mut self) -> Vec<u8> {
        self.out.truncate(self.end);
        self.out
    }
}
