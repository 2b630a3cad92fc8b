//! The quick half of the walks over `MessagePack` and CBOR. Nearly every body is shallow, and most of its values have a size
//! that their first byte tells.

use crate::Limits;

/// Marks a first byte that does not tell the size.
pub(super) const OTHER: u8 = 0;

/// How many containers inside each other are followed. Room for more would be cleared for every body.
const DEPTH: usize = 8;

/// What a value of another size is.
pub(super) enum Head {
    /// It ends before this place, which may be beyond the body.
    Ends(usize),
    /// From this place on it contains so many elements, of so many values each.
    Contains(usize, usize, usize),
}

/// Whether `body` is one value that keeps every limit. `false` decides nothing: the walk that knows every rule then says
/// what is wrong, if anything is.
///
/// `sizes` has for each first byte the size of the value, or [`OTHER`]. `head` looks at one of those, and may know
/// nothing about it. [`Limits::bytes`] is the caller's.
#[inline]
pub(super) fn keeps_limits(
    body: &[u8],
    limits: &Limits,
    sizes: &[u8; 256],
    head: impl Fn(u8, &[u8], usize) -> Option<Head>,
) -> bool {
    let max_depth = limits.depth.min(DEPTH);
    let mut elements_left = limits.elements.min(Limits::MAX_ELEMENTS);
    let mut outer = [0; DEPTH];
    let (mut depth, mut left, mut at) = (0, 1_usize, 0);
    loop {
        while left > 0 {
            left -= 1;
            // A value that goes on beyond the end is seen here, or by the place where all of them end.
            let Some(&first) = body.get(at) else { return false };
            let size = sizes[usize::from(first)];
            at += usize::from(size);
            if size != OTHER {
                continue;
            }
            match head(first, body, at + 1) {
                None => return false,
                Some(Head::Ends(next)) => at = next,
                Some(Head::Contains(next, elements, each)) => {
                    if depth >= max_depth || elements > elements_left {
                        return false;
                    }
                    elements_left -= elements;
                    outer[depth] = left;
                    depth += 1;
                    left = elements * each;
                    at = next;
                }
            }
        }
        if depth == 0 {
            return at == body.len();
        }
        depth -= 1;
        left = outer[depth];
    }
}

/// A big-endian integer of `N` bytes, and the place behind it.
#[inline]
pub(super) fn uint<const N: usize>(body: &[u8], at: usize) -> Option<(usize, usize)> {
    let bytes: &[u8; N] = body.get(at..)?.first_chunk()?;
    let value = bytes.iter().fold(0, |value, &byte| value << 8 | usize::from(byte));
    // A length beyond the body is left to the walk, so that no place is beyond what can be counted.
    (value <= body.len()).then_some((value, at + N))
}

/// Bodies of what a format is made of, cut and spoiled: where `quick` says yes, `walk` has nothing to refuse.
#[cfg(test)]
pub(super) fn says_yes_only_where(
    heads: &[u8],
    quick: impl Fn(&[u8], &Limits) -> bool,
    walk: impl Fn(&[u8], &Limits) -> Result<(), crate::DecodeError>,
) {
    let number = |name, default| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let (seed, cases) = (number("SEED", 7), number("CONSIGN_CASES", 50_000));
    let mut random = fastrand::Rng::with_seed(seed);
    let mut kept = 0;
    for _ in 0..cases {
        let limits = Limits::default().with_depth(random.usize(0..5)).with_elements(random.usize(0..5));
        let len = random.usize(0..12);
        let byte = |random: &mut fastrand::Rng| match random.u8(0..8) {
            0 => random.u8(..),
            1..4 => random.u8(0..4),
            _ => heads[random.usize(0..heads.len())],
        };
        let body: Vec<u8> = (0..len).map(|_| byte(&mut random)).collect();
        if quick(&body, &limits) {
            kept += 1;
            assert_eq!(walk(&body, &limits), Ok(()), "{body:x?} within {limits:?}: SEED={seed} CONSIGN_CASES={cases}");
        }
    }
    assert!(kept > cases / 100, "{kept} of {cases} bodies were worth a look");
}
