//! The fast path of the walks over `MessagePack` and CBOR. Nearly every body is shallow, and the first byte of most of its
//! values determines their size.

use crate::Limits;

/// Marks a first byte that does not determine the size.
pub(super) const OTHER: u8 = 0;

/// How many nested containers are followed. A larger array would be cleared for every body.
const DEPTH: usize = 8;

/// The head of a value of another size.
pub(super) enum Head {
    /// It ends before this place, which may be beyond the body.
    Ends(usize),
    /// From this place on it contains so many elements, of so many values each.
    Contains(usize, usize, usize),
}

/// Returns whether `body` is one value within every limit. `false` decides nothing: the complete walk then finds the error, if
/// there is one.
///
/// `sizes` has for each first byte the size of the value, or [`OTHER`]. `head` examines one of those, and may return nothing.
/// The caller checks [`Limits::bytes`].
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
            // A value that exceeds the body is detected here, or by the position at which all of them end.
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

/// Returns a big-endian integer of `N` bytes, and the position after it.
#[inline]
pub(super) fn uint<const N: usize>(body: &[u8], at: usize) -> Option<(usize, usize)> {
    let bytes: &[u8; N] = body.get(at..)?.first_chunk()?;
    let value = bytes.iter().fold(0, |value, &byte| value << 8 | usize::from(byte));
    // A length beyond the body is left to the walk, so that no position overflows.
    (value <= body.len()).then_some((value, at + N))
}

/// Generates bodies of the parts of a format, cut and spoiled: where `quick` accepts, `walk` must not refuse.
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
        let limits = Limits::default().depth(random.usize(0..5)).elements(random.usize(0..5));
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
