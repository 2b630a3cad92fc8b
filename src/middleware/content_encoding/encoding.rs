use super::error::DecompressErrorKind;

/// The encoding of compressed bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Encoding {
    /// RFC 1952. Read and written everywhere.
    #[cfg(feature = "gzip")]
    Gzip,
    /// RFC 8878, without a dictionary. Smaller than `Gzip`, and faster to write and to read.
    #[cfg(feature = "zstd")]
    Zstd,
    /// The `deflate` of HTTP: zlib's format (RFC 1950). Bytes without its header (RFC 1951) are read too.
    #[cfg(feature = "deflate")]
    Deflate,
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
            #[cfg(feature = "deflate")]
            Self::Deflate => "deflate",
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
            #[cfg(feature = "deflate")]
            Self::Deflate => is("deflate"),
        }
    }

    /// The level at which it compresses if `requested` is.
    pub(crate) fn level(self, requested: Option<u32>) -> u32 {
        // By default fast ones, for they run between a message and its send. Above 19 zstd has windows that few readers accept.
        let (default, highest) = match self {
            #[cfg(feature = "gzip")]
            Self::Gzip => (1, 9),
            #[cfg(feature = "zstd")]
            Self::Zstd => (3, 19),
            #[cfg(feature = "deflate")]
            Self::Deflate => (1, 9),
        };
        requested.unwrap_or(default).clamp(1, highest)
    }

    /// Out of line, for coders have their tables on the stack, and a body that passes unchanged needs no stack
    /// for them.
    #[inline(never)]
    pub(super) fn compress(self, body: &[u8], level: u32) -> Option<Vec<u8>> {
        match self {
            #[cfg(feature = "gzip")]
            Self::Gzip => super::gzip::compress(body, level),
            #[cfg(feature = "zstd")]
            Self::Zstd => super::zstd::compress(body, level),
            #[cfg(feature = "deflate")]
            Self::Deflate => super::deflate::compress(body, level),
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
            #[cfg(feature = "deflate")]
            Self::Deflate => super::deflate::decompress(body, limit, over),
        }
    }
}
