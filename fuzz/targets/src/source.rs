/// The bytes of a fuzzer as choices. Behind the last byte every choice is 0.
pub(crate) struct Source<'d> {
    rest: &'d [u8],
}

impl<'d> Source<'d> {
    pub(crate) const fn new(data: &'d [u8]) -> Self {
        Self { rest: data }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.rest.split_first() else { return 0 };
        self.rest = rest;
        *first
    }

    /// A number below `limit`, which is at least 1.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        let choice = if limit <= 256 {
            usize::from(self.byte())
        } else {
            usize::from(u16::from_be_bytes([self.byte(), self.byte()]))
        };
        choice % limit
    }

    pub(crate) fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    /// A number that is mostly small, and sometimes at an end of its range.
    pub(crate) fn number(&mut self) -> u32 {
        match self.byte() {
            small @ 0..0xe0 => u32::from(small & 0x1f),
            near @ 0xe0..0xf0 => u32::MAX - u32::from(near & 0x0f),
            near @ 0xf0..0xf8 => (u32::MAX / 2).wrapping_add(u32::from(near & 0x07)),
            _ => u32::from_be_bytes([self.byte(), self.byte(), self.byte(), self.byte()]),
        }
    }

    /// At most so many bytes.
    pub(crate) fn bytes(&mut self, count: usize) -> &'d [u8] {
        let (bytes, rest) = self.rest.split_at(count.min(self.rest.len()));
        self.rest = rest;
        bytes
    }

    /// One of a list that is not empty.
    pub(crate) fn pick<T: Copy>(&mut self, list: &[T]) -> Option<T> {
        if list.is_empty() { None } else { list.get(self.below(list.len())).copied() }
    }
}
