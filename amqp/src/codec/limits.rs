/// What a decoder accepts. Each limit is checked before memory is allocated or the stack grows.
///
/// The size of the input is not one of them: the caller holds the input, and [`FrameHeader`](crate::frame::FrameHeader) checks the
/// size of a frame before the frame is read. A count is also checked against the bytes that are left.
///
/// ```
/// use consign_amqp::codec::{Decoder, Limits};
/// use consign_amqp::bytes::Bytes;
///
/// let nested = Bytes::from_static(&[0xc0, 3, 1, 0xc0, 1, 0]);
/// let mut decoder = Decoder::with_limits(&nested, Limits::default().depth(1));
/// assert!(decoder.value().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// The most lists, maps, arrays and described values inside one another, 1 to 64. 32 by default.
    pub depth: u8,
    /// The most elements of all lists, maps and arrays that one decoder reads. A pair of a map is two, and so are a descriptor and
    /// what it describes. 65,536 by default.
    ///
    /// A [`Value`](crate::value::Value) takes 40 bytes.
    pub elements: u32,
    /// Whether symbols may be any UTF-8. No by default: AMQP 1.0 has ASCII. See [`Symbol::from_utf8`](crate::value::Symbol::from_utf8).
    pub utf8_symbols: bool,
}

impl Limits {
    /// The largest [`Limits::depth`]: 64.
    pub const MAX_DEPTH: u8 = 64;

    /// The most elements of an array whose elements take no bytes, such as an array of null: 1,024.
    ///
    /// The bytes that are left do not bound such an array.
    pub const ZERO_WIDTH_ELEMENTS: u32 = 1_024;

    /// Sets [`Limits::depth`], clamped to 1 to [`Limits::MAX_DEPTH`].
    #[must_use]
    pub const fn depth(mut self, depth: u8) -> Self {
        self.depth = if depth == 0 {
            1
        } else if depth > Self::MAX_DEPTH {
            Self::MAX_DEPTH
        } else {
            depth
        };
        self
    }

    /// Sets [`Limits::elements`].
    #[must_use]
    pub const fn elements(mut self, elements: u32) -> Self {
        self.elements = elements;
        self
    }

    /// Sets [`Limits::utf8_symbols`].
    #[must_use]
    pub const fn utf8_symbols(mut self, utf8_symbols: bool) -> Self {
        self.utf8_symbols = utf8_symbols;
        self
    }

    /// The default limits, as a constant.
    pub(crate) const DEFAULT: Self = Self { depth: 32, elements: 65_536, utf8_symbols: false };
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}
