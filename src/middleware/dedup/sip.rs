/// The SipHash-1-3 of 128 bits of something short. `piece` has `length` bytes, which zeros fill up to a multiple of eight.
///
/// Without a state for further bytes it takes fewer instructions than that of the crate `siphasher`.
#[inline]
pub(super) fn hash(secret: &[u8; 16], piece: &[u8], length: usize) -> [u64; 2] {
    let [k0, k1] = [half(secret, 0), half(secret, 8)];
    let mut state = State {
        v0: k0 ^ 0x736f_6d65_7073_6575,
        v1: k1 ^ 0x646f_7261_6e64_6f83,
        v2: k0 ^ 0x6c79_6765_6e65_7261,
        v3: k1 ^ 0x7465_6462_7974_6573,
    };
    let words = piece.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word));
    words.clone().take(length / 8).for_each(|word| state.add(word));
    // The last word has the bytes that are left, and the length.
    state.add(words.clone().nth(length / 8).unwrap_or_default() | (length as u64) << 56);
    state.v2 ^= 0xee;
    let first = state.finish();
    state.v1 ^= 0xdd;
    [first, state.finish()]
}

#[inline]
fn half(secret: &[u8; 16], at: usize) -> u64 {
    let mut half = [0; 8];
    half.copy_from_slice(&secret[at..at + 8]);
    u64::from_le_bytes(half)
}

struct State {
    v0: u64,
    v1: u64,
    v2: u64,
    v3: u64,
}

impl State {
    #[inline]
    fn add(&mut self, word: u64) {
        self.v3 ^= word;
        self.round();
        self.v0 ^= word;
    }

    #[inline]
    fn finish(&mut self) -> u64 {
        for _ in 0..3 {
            self.round();
        }
        self.v0 ^ self.v1 ^ self.v2 ^ self.v3
    }

    #[inline]
    fn round(&mut self) {
        self.v0 = self.v0.wrapping_add(self.v1);
        self.v2 = self.v2.wrapping_add(self.v3);
        self.v1 = self.v1.rotate_left(13) ^ self.v0;
        self.v3 = self.v3.rotate_left(16) ^ self.v2;
        self.v0 = self.v0.rotate_left(32).wrapping_add(self.v3);
        self.v2 = self.v2.wrapping_add(self.v1);
        self.v1 = self.v1.rotate_left(17) ^ self.v2;
        self.v3 = self.v3.rotate_left(21) ^ self.v0;
        self.v2 = self.v2.rotate_left(32);
    }
}
