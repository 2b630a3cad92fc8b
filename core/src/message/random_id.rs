//! Ids from a cryptographic generator in user space: a system call for each would cost more than the rest of a send.
//!
//! Each thread has a generator of its own, ChaCha with 12 rounds, seeded by the operating system. It is seeded again after
//! `Pool::FILLS` fills, and in a child process that was forked from this one: a fill compares process ids, so that at most
//! `Pool::IDS` ids of the thread that forked are made by both processes.

use std::cell::RefCell;

use rand::{
    Rng, SeedableRng,
    rngs::{StdRng, SysRng},
};
use uuid::Uuid;

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

/// A random UUID as text, in lower case and with hyphens: the MessageId of a message that is sent without one.
#[doc(hidden)]
#[must_use]
pub fn random_uuid_text() -> String {
    Uuid::from_bytes(random_uuid()).hyphenated().encode_lower(&mut Uuid::encode_buffer()).to_owned()
}

const BYTES: usize = 16;

/// Random bytes that no id uses yet.
struct Pool {
    bytes: [[u8; BYTES]; Self::IDS],
    left: usize,
    generator: Option<Generator>,
}

struct Generator {
    random: StdRng,
    /// The process in which it was seeded.
    process: u32,
    fills: u32,
}

impl Pool {
    /// One block of the generator has as many.
    const IDS: usize = 16;
    /// 64 KiB, as for the generators of threads in `rand`.
    const FILLS: u32 = 256;

    const fn new() -> Self {
        Self { bytes: [[0; BYTES]; Self::IDS], left: 0, generator: None }
    }

    #[cold]
    fn fill(&mut self, process: u32) {
        let is_old = |generator: &Generator| generator.process != process || generator.fills == Self::FILLS;
        if self.generator.as_ref().is_some_and(is_old) {
            self.generator = None;
        }
        let generator = self.generator.get_or_insert_with(|| Generator { random: seeded(), process, fills: 0 });
        generator.random.fill_bytes(self.bytes.as_flattened_mut());
        generator.fills += 1;
        self.left = Self::IDS;
    }

    #[inline]
    fn take(&mut self) -> [u8; BYTES] {
        if self.left == 0 {
            self.fill(std::process::id());
        }
        self.left -= 1;
        // What is taken is left nowhere.
        std::mem::take(&mut self.bytes[self.left])
    }
}

fn seeded() -> StdRng {
    StdRng::try_from_rng(&mut SysRng).expect("the system has random numbers")
}

thread_local! {
    static POOL: RefCell<Pool> = const { RefCell::new(Pool::new()) };
}

#[inline]
fn random_bytes() -> [u8; BYTES] {
    POOL.try_with(|pool| pool.borrow_mut().take()).unwrap_or_else(|_| of_the_system())
}

/// While a thread ends it has no generator.
#[cold]
fn of_the_system() -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes).expect("the system has random numbers");
    bytes
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

    #[test]
    fn an_id_as_text_is_a_random_uuid_in_lower_case() {
        let text = random_uuid_text();
        let uuid = Uuid::parse_str(&text).unwrap();
        assert_eq!((uuid.get_version_num(), uuid.hyphenated().to_string()), (4, text.clone()));
        assert_ne!(random_uuid_text(), text);
    }

    /// Two pools of one generator, as a process and its fork have them.
    #[test]
    fn a_generator_is_seeded_again_after_its_fills_and_in_another_process() {
        let filled = |fills, process| {
            let mut pool = Pool::new();
            pool.generator = Some(Generator { random: StdRng::from_seed([7; 32]), process: 1, fills });
            pool.fill(process);
            pool.bytes
        };
        let first = filled(0, 1);
        assert_eq!(filled(Pool::FILLS - 1, 1), first);
        assert_ne!(filled(Pool::FILLS, 1), first);
        assert_ne!(filled(0, 2), first);
    }

    #[test]
    fn a_thread_that_ends_still_has_ids() {
        struct AtTheEnd(std::sync::mpsc::Sender<[u8; BYTES]>);
        impl Drop for AtTheEnd {
            fn drop(&mut self) {
                self.0.send(random_uuid()).unwrap();
            }
        }
        thread_local!(static FIRST: RefCell<Option<AtTheEnd>> = const { RefCell::new(None) });
        let (ids, received) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            FIRST.set(Some(AtTheEnd(ids)));
            random_uuid()
        });
        let first = thread.join().unwrap();
        assert_ne!(received.recv().unwrap(), first);
    }

    #[test]
    fn ids_of_the_system_differ() {
        let (first, second) = (of_the_system(), of_the_system());
        assert_ne!(first, second);
        assert!(first != [0; BYTES] && second != [0; BYTES], "{first:?} {second:?}");
    }
}
