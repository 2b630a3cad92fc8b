use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    collections::BTreeMap,
};

use proptest::{collection::vec, prelude::*};
use serde::Deserialize;
use serde_bytes::ByteBuf;
use serde_json::Value;

use crate::support::{ALL, CBOR, Fixint, MSGPACK, Order, POSTCARD, Varint, Which, explain, runner};

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

/// Counts the bytes that are live on this thread, and the most that ever were.
struct Counting;

impl Counting {
    fn add(bytes: usize, sign: isize) {
        let bytes = isize::try_from(bytes).unwrap_or(isize::MAX);
        let _ = LIVE.try_with(|live| {
            live.set(live.get().saturating_add(sign.saturating_mul(bytes)));
            let _ = PEAK.try_with(|peak| peak.set(peak.get().max(live.get())));
        });
    }
}

// SAFETY: every call goes to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Self::add(layout.size(), 1);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        Self::add(layout.size(), -1);
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// The most bytes that were live while `f` ran.
fn peak(f: impl FnOnce()) -> usize {
    let before = LIVE.get();
    PEAK.set(before);
    f();
    usize::try_from(PEAK.get() - before).unwrap_or_default()
}

const MIB: usize = 1 << 20;

fn decode<T: for<'de> Deserialize<'de>>(codec: Which, body: &[u8]) -> usize {
    peak(|| drop(codec.decode::<T>(body)))
}

fn dearest(codec: Which, body: &[u8]) -> usize {
    [
        decode::<Order>(codec, body),
        decode::<Value>(codec, body),
        decode::<Vec<u64>>(codec, body),
        decode::<Vec<String>>(codec, body),
        decode::<BTreeMap<String, u32>>(codec, body),
        decode::<ByteBuf>(codec, body),
        decode::<String>(codec, body),
    ]
    .into_iter()
    .max()
    .unwrap_or_default()
}

#[test]
fn the_counter_counts() {
    assert!(peak(|| drop(std::hint::black_box(Vec::<u8>::with_capacity(3 * MIB)))) >= 3 * MIB);
}

#[test]
fn hostile_lengths_allocate_less_than_a_mebibyte() {
    let mut bodies = Vec::new();
    for marker in [0xc6, 0xdb, 0xc9, 0xdd, 0xdf] {
        bodies.push((MSGPACK, [&[marker][..], &[0xff; 4], &[0; 64]].concat()));
        bodies.push((MSGPACK, [&[marker][..], &[0, 0, 0xff, 0xff], &[0; 64]].concat()));
    }
    for head in [0x5b, 0x7b, 0x9b, 0xbb] {
        bodies.push((CBOR, [&[head][..], &(1_u64 << 40).to_be_bytes(), &[0; 64]].concat()));
        bodies.push((CBOR, [&[head][..], &0xffff_u64.to_be_bytes(), &[0; 64]].concat()));
    }
    for len in [1_u64 << 59, 1 << 40, 1 << 33, 0xffff] {
        bodies.push((Fixint, [&len.to_le_bytes()[..], &[0; 64]].concat()));
        bodies.push((Varint, [&[253][..], &len.to_le_bytes(), &[0; 64]].concat()));
    }
    bodies.push((POSTCARD, [&[0x80, 0x80, 0x80, 0x80, 0x80, 0x20][..], &[0; 64]].concat()));
    bodies.push((POSTCARD, [&[0xff, 0xff, 0x03][..], &[0; 64]].concat()));
    for (codec, body) in bodies {
        let bytes = dearest(codec, &body);
        assert!(bytes < MIB, "{codec:?} {:x?} allocated {bytes}", &body[..9]);
    }
}

#[test]
fn a_random_body_costs_at_most_eight_times_itself_and_a_mebibyte() {
    let result = runner(2_000).run(&vec(any::<u8>(), 0..512), |body| {
        for codec in ALL {
            let bytes = dearest(codec, &body);
            prop_assert!(bytes <= 8 * body.len() + MIB, "{:?} allocated {}", codec, bytes);
        }
        Ok(())
    });
    explain(result, "a_random_body_costs_at_most_eight_times_itself_and_a_mebibyte");
}

/// What `Json::strict` remembers of a body is smaller than the body.
#[test]
fn strict_json_costs_at_most_eight_times_the_body() {
    let keys: Vec<_> = (0..20_000).map(|n| format!("\"{n}\":0")).collect();
    let body = format!("{{{}}}", keys.join(","));
    let bytes = decode::<serde::de::IgnoredAny>(Which::Strict, body.as_bytes());
    assert!(bytes > 0 && bytes <= 8 * body.len(), "{bytes} for {}", body.len());
}

/// Wide, and read out of two bytes.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Wide {
    numbers: [u64; 32],
    more: [u64; 18],
}

/// Declares as many children as the body says, in each of them.
#[derive(Debug, Deserialize)]
#[allow(dead_code)]
struct Tree {
    children: Vec<Tree>,
    numbers: [u64; 32],
}

/// Rules: P-124.
#[test]
fn elements_of_any_size_cost_at_most_three_times_the_limit() {
    let limits = consign_codecs::Limits::default();
    let size = std::mem::size_of::<Wide>();
    let bound = 3 * limits.elements * size + MIB;
    let json = |lists: usize, each: usize| {
        let list = format!("[{}]", vec!["{}"; each].join(","));
        format!("[{}]", vec![list; lists].join(",")).into_bytes()
    };
    let head = |marker: u8, count: usize| [&[marker][..], &u32::try_from(count).unwrap().to_be_bytes()].concat();
    let binary = |marker: u8, lists: usize, each: usize, empty: u8| {
        let list = [head(marker, each), vec![empty; each]].concat();
        [head(marker, lists), list.repeat(lists)].concat()
    };
    for (codec, within, over) in [
        (Which::Json, json(1, 65_535), json(2, 40_000)),
        (Which::Json, json(32_768, 1), json(32_769, 1)),
        (MSGPACK, binary(0xdd, 1, 65_535, 0x80), binary(0xdd, 4, 60_000, 0x80)),
        (MSGPACK, binary(0xdd, 32_768, 1, 0x80), binary(0xdd, 32_769, 1, 0x80)),
        (CBOR, binary(0x9a, 1, 65_535, 0xa0), binary(0x9a, 4, 60_000, 0xa0)),
    ] {
        assert!(within.len() <= limits.bytes && over.len() <= limits.bytes, "{codec:?} {}", over.len());
        let bytes = peak(|| assert_eq!(codec.decode::<Vec<Vec<Wide>>>(&within).unwrap().concat_len(), 0));
        assert!(bytes > limits.elements * size / 2 && bytes <= bound, "{codec:?} {bytes} of {bound}");
        let bytes =
            peak(|| assert_eq!(codec.kind::<Vec<Vec<Wide>>>(&over), Some(consign_codecs::DecodeErrorKind::Count)));
        assert!(bytes < MIB, "{codec:?} {bytes}");
    }
}

trait ConcatLen {
    /// The sum of all numbers, so that the values are looked at.
    fn concat_len(&self) -> u64;
}

impl ConcatLen for Vec<Vec<Wide>> {
    fn concat_len(&self) -> u64 {
        self.iter().flatten().map(|wide| wide.numbers.iter().chain(&wide.more).sum::<u64>()).sum()
    }
}

/// Rules: P-124.
#[test]
fn declared_elements_are_counted_before_memory_is_reserved() {
    let mut bodies = Vec::new();
    bodies.push((POSTCARD, [0xe8, 0xfb, 0x03].repeat(80_000)));
    bodies.push((Varint, [251, 0xe8, 0xfd].repeat(80_000)));
    bodies.push((Fixint, 65_000_u64.to_le_bytes().repeat(32_000)));
    for (codec, body) in bodies {
        // serde reserves a MiB for each list at most, and the type says how many there are inside each other.
        let bytes = peak(|| assert_eq!(codec.kind::<Tree>(&body), Some(consign_codecs::DecodeErrorKind::Count)));
        assert!(bytes < 2 * MIB, "{codec:?} {bytes}");
    }
}
