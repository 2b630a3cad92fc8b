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
