use std::{error, fmt};

use crate::{
    Disposition, content_encoding,
    message::ApplicationProperties,
    settlement::{DeadLetter, DeadLetterReason, IntoDisposition},
};

/// The error of a body that was not decompressed. As a [`Disposition`] it is a dead letter. It holds no bytes of the body.
#[derive(Debug)]
pub struct DecompressError {
    kind: DecompressErrorKind,
    /// At most 64 characters, escaped.
    encoding: Box<str>,
}

/// The kind of an error in an encoded body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DecompressErrorKind {
    /// An encoding that is unknown, or that the layer is not configured to read.
    Encoding,
    /// More than one encoding.
    Nested,
    /// The body is an AMQP sequence, or a value that is not bytes.
    NotBytes,
    /// More bytes than the layer allows.
    Size {
        /// Bytes.
        limit: usize,
    },
    /// More times its encoded size than the layer allows.
    Ratio {
        /// Times.
        limit: usize,
    },
    /// A window of zstd above 2 GiB.
    #[cfg_attr(not(feature = "zstd"), expect(dead_code, reason = "only zstd has windows"))]
    Window,
    /// Not well-formed.
    Syntax,
    /// It ends too early.
    Truncated,
    /// Bytes follow.
    Trailing,
}

impl DecompressErrorKind {
    /// The code in a trail.
    const fn code(self) -> &'static str {
        match self {
            Self::Encoding => "Encoding",
            Self::Nested => "Nested",
            Self::NotBytes => "NotBytes",
            Self::Size { .. } => "Size",
            Self::Ratio { .. } => "Ratio",
            Self::Window => "Window",
            Self::Syntax => "Syntax",
            Self::Truncated => "Truncated",
            Self::Trailing => "Trailing",
        }
    }
}

impl DecompressError {
    #[cold]
    pub(super) fn new(kind: DecompressErrorKind, encoding: &str) -> Self {
        Self { kind, encoding: encoding.chars().take(64).flat_map(char::escape_debug).collect() }
    }

    /// Returns the code under which the message is dead-lettered.
    #[must_use]
    pub fn reason(&self) -> DeadLetterReason {
        use DecompressErrorKind as Kind;
        match self.kind {
            Kind::Encoding | Kind::Nested | Kind::NotBytes => DeadLetterReason::UnsupportedEncoding,
            Kind::Size { .. } | Kind::Ratio { .. } | Kind::Window => DeadLetterReason::LimitExceeded,
            Kind::Syntax | Kind::Truncated | Kind::Trailing => DeadLetterReason::DeserializationFailed,
        }
    }
}

impl fmt::Display for DecompressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use DecompressErrorKind as Kind;
        write!(f, "content encoding `{}`: ", self.encoding)?;
        match self.kind {
            Kind::Encoding => match content_encoding::feature(&self.encoding) {
                None => f.write_str("not supported: `gzip`, `zstd` and `deflate` are"),
                Some(feature) if ENABLED.contains(&feature) => {
                    f.write_str("not read by this layer: name it in `DecompressLayer::new`")
                }
                Some(feature) => write!(f, "enable the feature `{feature}` of consign"),
            },
            Kind::Nested => f.write_str("more than one encoding"),
            Kind::NotBytes => f.write_str("the body is an AMQP value or sequence, and compressed bytes were expected"),
            Kind::Size { limit } => write!(f, "the body has more than {limit} bytes"),
            Kind::Ratio { limit } => write!(f, "the body has more than {limit} times its encoded size"),
            Kind::Window => f.write_str("it requires a window above 2 GiB"),
            Kind::Syntax => f.write_str("not well-formed"),
            Kind::Truncated => f.write_str("the body ends too early"),
            Kind::Trailing => f.write_str("bytes follow the encoded body"),
        }
    }
}

/// The features of encodings that this build has.
const ENABLED: &[&str] = &[
    #[cfg(feature = "gzip")]
    "gzip",
    #[cfg(feature = "zstd")]
    "zstd",
    #[cfg(feature = "deflate")]
    "deflate",
];

impl error::Error for DecompressError {}

impl IntoDisposition for DecompressError {
    #[cold]
    fn into_disposition(self) -> Disposition {
        let mut letter = DeadLetter::new(self.reason(), self.to_string());
        // A name that is no encoding's is a sender's text, and a trail has fields.
        let known =
            ["gzip", "x-gzip", "zstd", "deflate"].into_iter().find(|known| known.eq_ignore_ascii_case(&self.encoding));
        let trail = format!("{};exact;{};", known.unwrap_or("encoding"), self.kind.code());
        letter.changes = [(DeadLetter::TRAIL, trail)].into_iter().collect::<ApplicationProperties>().into();
        letter.into_disposition()
    }
}
