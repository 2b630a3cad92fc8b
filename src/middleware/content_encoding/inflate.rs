//! Deflated bytes (RFC 1951), inflated right into the body.

use zlib_rs::{Inflate, InflateFlush, Status};

use super::{error::DecompressErrorKind as Kind, kept::Kept};

/// What is around the deflated bytes.
#[derive(Clone, Copy)]
pub(super) enum Around {
    Nothing,
    /// The header and the checksum of RFC 1950.
    #[cfg(feature = "deflate")]
    Zlib,
}

/// One takes 48 KiB.
static IDLE: Kept<Inflate> = Kept::new();

/// A body that grows by what is inflated into it, up to a limit.
pub(super) struct Inflater {
    decoder: Inflate,
    /// Never more than one byte over the limit: that byte says that there is more.
    out: Vec<u8>,
    end: usize,
    limit: usize,
    over: Kind,
}

impl Inflater {
    pub(super) fn new(limit: usize, over: Kind) -> Self {
        let decoder = IDLE.take().unwrap_or_else(|| Inflate::new(false, WINDOW_BITS));
        Self { decoder, out: Vec::new(), end: 0, limit, over }
    }

    /// Appends what one stream of deflated bytes says. Returns where in the body it begins, and what follows the stream.
    pub(super) fn append<'b>(&mut self, deflated: &'b [u8], around: Around) -> Result<(usize, &'b [u8]), Kind> {
        let most = self.limit.saturating_add(1);
        let start = self.end;
        let room = start.saturating_add(deflated.len().saturating_mul(4)).min(most);
        if self.out.len() < room {
            self.out.resize(room, 0);
        }
        // A stream does not look back into the one before it.
        self.decoder.reset(!matches!(around, Around::Nothing));
        let mut rest = deflated;
        loop {
            let out = &mut self.out[self.end..];
            let (read, written) = (self.decoder.total_in(), self.decoder.total_out());
            let result = self.decoder.decompress(rest, out, InflateFlush::Finish);
            rest = &rest[since(read, self.decoder.total_in())..];
            self.end += since(written, self.decoder.total_out());
            if self.end > self.limit {
                return Err(self.over);
            }
            match result {
                Ok(Status::StreamEnd) => return Ok((start, rest)),
                // It is full, and there may be more input in the decoder.
                Ok(_) if self.end == self.out.len() && self.out.len() < most => {
                    self.out.resize(self.out.len().saturating_mul(2).clamp(1, most), 0);
                }
                Ok(_) => return Err(Kind::Truncated),
                Err(_) => return Err(Kind::Syntax),
            }
        }
    }

    /// What was inflated from `start` on.
    #[cfg(feature = "gzip")]
    pub(super) fn since(&self, start: usize) -> &[u8] {
        &self.out[start..self.end]
    }

    pub(super) fn into_body(self) -> Vec<u8> {
        let Self { decoder, mut out, end, .. } = self;
        IDLE.put(decoder);
        out.truncate(end);
        out
    }
}

/// The largest window, 32 KiB, which every stream may have.
const WINDOW_BITS: u8 = 15;

#[expect(clippy::cast_possible_truncation, reason = "at most the length of a slice")]
const fn since(before: u64, now: u64) -> usize {
    (now - before) as usize
}
