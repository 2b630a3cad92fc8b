use super::error::DecompressErrorKind;

/// How bodies are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Encoding {
    /// RFC 1952: one member. Read and written everywhere.
    #[cfg(feature = "gzip")]
    Gzip,
    /// RFC 8878: one frame, without a dictionary. Faster to read.
    #[cfg(feature = "zstd")]
    Zstd,
}

/// How each encoding begins, whether or not it can be read here.
const MAGIC: [&[u8]; 2] = [&[0x1F, 0x8B, 0x08], &[0x28, 0xB5, 0x2F, 0xFD]];

/// Whether a body begins like something compressed.
pub(super) fn is_compressed(body: &[u8]) -> bool {
    MAGIC.iter().any(|magic| body.starts_with(magic))
}

impl Encoding {
    /// The name that travels, in lower case.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            #[cfg(feature = "gzip")]
            Self::Gzip => "gzip",
            #[cfg(feature = "zstd")]
            Self::Zstd => "zstd",
        }
    }

    /// Whether `name` means this encoding. Case does not matter (RFC 9110, 8.4.1), and `x-gzip` is `gzip`.
    pub(super) fn is_named(self, name: &str) -> bool {
        let is = |other: &str| name.eq_ignore_ascii_case(other);
        match self {
            #[cfg(feature = "gzip")]
            Self::Gzip => is("gzip") || is("x-gzip"),
            #[cfg(feature = "zstd")]
            Self::Zstd => is("zstd"),
        }
    }

    /// Out of line, for coders have their tables on the stack, and what passes as it is needs no room for them.
    #[inline(never)]
    #[cfg_attr(not(feature = "gzip"), expect(clippy::unnecessary_wraps, reason = "what gzip's does"))]
    pub(super) fn compress(self, body: &[u8]) -> Option<Vec<u8>> {
        match self {
            #[cfg(feature = "gzip")]
            Self::Gzip => super::gzip::compress(body),
            #[cfg(feature = "zstd")]
            Self::Zstd => Some(super::zstd::compress(body)),
        }
    }

    /// The body, of at most `limit` bytes; `over` says what it means to have more. Out of line as well.
    #[inline(never)]
    pub(super) fn decompress(
        self,
        body: &[u8],
        limit: usize,
        over: DecompressErrorKind,
    ) -> Result<Vec<u8>, DecompressErrorKind> {
        match self {
            #[cfg(feature = "gzip")]
            Self::Gzip => super::gzip::decompress(body, limit, over),
            #[cfg(feature = "zstd")]
            Self::Zstd => super::zstd::decompress(body, limit, over),
        }
    }
}
