use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

use consign_codecs::{Codec, DataContractBinary, DataContractXml, DecodeContext, Limits};
use serde::de::IgnoredAny;

use crate::support::{CONTRACT, SERIALIZATION, binary, golden, start, text};

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

#[test]
fn a_declared_length_or_count_reserves_nothing() {
    let start = start("a", CONTRACT);
    for rest in [
        &[0x9d, 0xff, 0xff, 0x03, 0][..],
        &[0xa3, 0xff, 0xff, 0x03, 0],
        &[0xbb, 0xff, 0xff, 0x03, 0],
        &[0x40, 0xff, 0xff, 0x0f],
        &[0x03, 0x40, 1, b'i', 1, 0x8d, 0xff, 0xff, 0x03],
    ] {
        let body = [&start[..], rest, &[0; 32]].concat();
        let bytes = peak(|| drop(binary::<IgnoredAny>(&body)));
        assert!(bytes < 4_096, "{rest:x?} took {bytes}");
    }
}

/// The documentation of the codecs has this number.
#[test]
fn an_element_takes_less_than_300_bytes_while_the_body_is_read() {
    let limits = Limits::default().bytes(Limits::MAX_BYTES);
    let (elements, cx) = (limits.elements, DecodeContext::new(&limits));
    let of_binary = |item: &[u8]| [start("a", CONTRACT), item.repeat(elements), vec![1]].concat();
    for item in [&[0x40, 1, b'i', 1][..], &[0x40, 1, b'i', 0x81], &[0x98, 0], &[0x80]] {
        let body = of_binary(item);
        let bytes = peak(|| assert!(DataContractBinary::default().decode::<IgnoredAny>(&body, &cx).is_ok()));
        assert!(bytes < 300 * elements, "{item:x?} took {bytes}");
    }
    for item in ["<i/>", "<i>a</i>", "<![CDATA[]]>", "a<!---->"] {
        let body = format!("<a xmlns='{CONTRACT}'>{}</a>", item.repeat(elements)).into_bytes();
        let bytes = peak(|| assert!(DataContractXml::default().decode::<IgnoredAny>(&body, &cx).is_ok()));
        assert!(bytes < 300 * elements, "{item} took {bytes}");
    }
    let array = [&start("a", CONTRACT)[..], b"\x03\x40\x01i\x01\xb5\xff\xff\x03", &vec![0; 0xffff], &[1]].concat();
    assert!(peak(|| assert!(binary::<IgnoredAny>(&array).is_ok())) < 300 * elements);
}

#[test]
fn text_and_bytes_are_borrowed_from_the_body() {
    for name in ["string-70000.bin", "bytes-300.bin"] {
        let body = golden(name);
        let bytes = peak(|| drop(binary::<IgnoredAny>(&body)));
        assert!(bytes < 4_096, "{name} took {bytes}");
    }
    let body = format!("<string xmlns='{SERIALIZATION}'>{}</string>", "a".repeat(70_000));
    let bytes = peak(|| assert_eq!(text::<&str>(body.as_bytes()).unwrap().len(), 70_000));
    assert!(bytes < 4_096, "took {bytes}");
}
