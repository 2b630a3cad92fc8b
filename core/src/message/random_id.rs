use std::cell::RefCell;

use super::text::Token;

/// The id that identifies a message in transit: a random UUID as 32 hexadecimal digits in lower case. 122 of its bits
/// are random, so only a receiver of a request can answer it.
#[inline]
#[doc(hidden)]
#[must_use]
pub fn random_id() -> Token {
    Token::new(random_uuid())
}

#[inline]
#[doc(hidden)]
#[must_use]
pub fn random_uuid() -> [u8; BYTES] {
    let mut bytes = random_bytes();
    // RFC 9562, 5.4: the version and the variant.
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    bytes
}

const BYTES: usize = 16;

/// Random bytes of the operating system that no id uses yet. They are read in bulk, for each read is a system call.
struct Pool {
    bytes: [[u8; BYTES]; Self::IDS],
    left: usize,
}

impl Pool {
    const IDS: usize = 16;

    #[cold]
    fn fill(&mut self) {
        getrandom::fill(self.bytes.as_flattened_mut()).expect("the system has random numbers");
        self.left = Self::IDS;
    }
}

thread_local! {
    static POOL: RefCell<Pool> = const { RefCell::new(Pool { bytes: [[0; BYTES]; Pool::IDS], left: 0 }) };
}

#[inline]
fn random_bytes() -> [u8; BYTES] {
    POOL.with_borrow_mut(|pool| {
        if pool.left == 0 {
            pool.fill();
        }
        pool.left -= 1;
        // What is taken is left nowhere.
        std::mem::take(&mut pool.bytes[pool.left])
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Rules: R-01.
    #[test]
    fn ids_differ_within_a_pool_and_from_one_to_the_next() {
        let mut ids = HashSet::new();
        let mut bits = [0_u32; 8 * BYTES];
        let drawn = 32 * Pool::IDS;
        for _ in 0..drawn {
            let digits = random_id();
            let id = u128::from_str_radix(std::str::from_utf8(digits.as_bytes()).unwrap(), 16).unwrap();
            assert!(ids.insert(id), "{id:x}");
            for (bit, ones) in bits.iter_mut().enumerate() {
                *ones += u32::from(id >> bit & 1 == 1);
            }
        }
        // Six bits say that it is a random UUID; every other is one and zero.
        let fixed = bits.iter().filter(|&&ones| ones == 0 || ones as usize == drawn).count();
        assert_eq!(fixed, 6);
    }
}
