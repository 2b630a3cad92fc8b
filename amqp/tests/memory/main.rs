//! What a peer sends does not make the decoder allocate more than its limits allow.
#![allow(unsafe_code)]

mod engine;

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

use bytes::Bytes;
use consign_amqp::{
    codec::{self, Limits},
    frame::{Frame, FrameHeader},
    message::EncodedMessage,
    types::{Accepted, Disposition, Performative, Transfer},
    value::Value,
};
use fastrand::Rng;

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
    static BYTES: Cell<usize> = const { Cell::new(0) };
}

fn count(bytes: usize) {
    // There is none any more while a thread ends.
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
    let _ = BYTES.try_with(|sum| sum.set(sum.get() + bytes));
}

// SAFETY: everything is handed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        unsafe { System.realloc(place, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How often `run` allocates, and how many bytes in all.
fn allocated<T>(run: impl FnOnce() -> T) -> (T, usize, usize) {
    let before = (ALLOCATIONS.get(), BYTES.get());
    let value = run();
    (value, ALLOCATIONS.get() - before.0, BYTES.get() - before.1)
}

const MOST: usize = 64 << 10;

fn refused(bytes: Vec<u8>, name: &str) {
    let bytes = Bytes::from(bytes);
    let (outcome, _, sum) = allocated(|| codec::decode::<Value>(&bytes).is_err());
    assert!(outcome && sum <= MOST, "{name}: refused {outcome}, {sum} bytes");
}

/// Rules: A-47.
/// Attacks: 6, 16.
#[test]
fn bombs_are_refused_within_64_kib() {
    for (code, name) in [(0xd0_u8, "lists"), (0xf0, "arrays")] {
        let mut nested = Vec::new();
        for level in (0..10_000_u32).rev() {
            nested.push(code);
            nested.extend_from_slice(&(4 + level * 9).to_be_bytes());
            nested.extend_from_slice(&1_u32.to_be_bytes());
        }
        refused(nested, name);
    }
    refused([0xc0, 0xff, 0xff].repeat(10_000), "lists of small sizes");
    refused(vec![0; 100_000], "descriptors of descriptors");
    for code in [0xd0, 0xd1, 0xf0] {
        for count in [u32::MAX, 1 << 31, 1 << 24, 70_000] {
            let mut bytes = vec![code, 0, 0, 1, 0];
            bytes.extend_from_slice(&count.to_be_bytes());
            bytes.resize(261, 0x40);
            refused(bytes, "counts");
        }
    }
    // Counts that are possible: 60,000 elements of which the first is malformed.
    for (code, first) in [(0xd0, 0x3f), (0xd1, 0x3f), (0xf0, 0xa1)] {
        let mut bytes = vec![code, 0, 0, 0xea, 0x64, 0, 0, 0xea, 0x60, first];
        bytes.resize(60_009, 0xff);
        refused(bytes, "elements");
    }
    for code in [0xb0, 0xb1, 0xb3, 0xd0, 0xd1, 0xf0] {
        refused(vec![code, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1, 0x40], "sizes");
    }
}

/// Rules: A-47.
/// The README has the figure.
#[test]
fn the_most_elements_take_less_than_6_mib() {
    let list = |element: &[u8], count: u32| {
        let content = element.repeat(count as usize);
        let size = u32::try_from(content.len() + 4).unwrap();
        Bytes::from([&[0xd0][..], &size.to_be_bytes(), &count.to_be_bytes(), &content].concat())
    };
    let lists = [
        list(&[0x40], 65_536),
        list(&[0xc0, 2, 1, 0x40], 32_768),
        list(&[0xc1, 3, 2, 0x40, 0x40], 21_845),
        list(&[0xe0, 3, 1, 0x50, 1], 32_768),
        list(&[0x00, 0x40, 0x40], 21_845),
        list(&[0x00, 0x40, 0x00, 0x40, 0x00, 0x40, 0x40], 9_362),
    ];
    for bytes in lists {
        let (value, _, sum) = allocated(|| codec::decode::<Value>(&bytes));
        assert!(value.is_ok() && sum < 6 << 20, "{:?}: {sum} bytes", value.err());
    }
}

/// Rules: A-47.
/// Attacks: 90.
#[test]
fn truncated_and_flipped_frames_stay_within_64_kib() {
    let vectors = include_str!("../vectors/rhea.txt").lines().filter(|line| line.starts_with("frame-"));
    let mut rng = Rng::with_seed(7);
    let mut refused = 0;
    for line in vectors {
        let (_, digits) = line.split_once(' ').unwrap();
        let digits: Vec<_> = digits.as_bytes().chunks(2).map(|pair| str::from_utf8(pair).unwrap()).collect();
        let frame: Vec<u8> = digits.iter().map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect();
        for _ in 0..2_000 {
            let mut bytes = frame.clone();
            let index = rng.usize(..bytes.len());
            bytes[index] ^= 1 << rng.u8(0..8);
            bytes.truncate(rng.usize(8..=bytes.len()));
            let size = u32::try_from(bytes.len()).unwrap();
            bytes[..4].copy_from_slice(&size.to_be_bytes());
            let bytes = Bytes::from(bytes);
            let decode = || {
                let header = FrameHeader::decode(&bytes, 65_536).ok()??;
                Frame::decode(header, &bytes, Limits::default()).ok()
            };
            let (frame, _, sum) = allocated(decode);
            assert!(sum <= MOST, "{sum} bytes for {bytes:?}");
            refused += u32::from(frame.is_none());
        }
    }
    assert!(refused > 10_000, "only {refused} were refused");
}

/// Rules: A-43.
#[test]
fn transfers_and_dispositions_are_decoded_and_encoded_without_an_allocation() {
    let transfer: Performative = Transfer {
        handle: 1,
        delivery_id: Some(2),
        delivery_tag: Some([7; 16].to_vec().into()),
        ..Transfer::default()
    }
    .into();
    let disposition: Performative =
        Disposition { first: 2, settled: true, state: Some(Accepted {}.into()), ..Disposition::default() }.into();
    let mut out = Vec::with_capacity(1_024);
    for performative in [transfer, disposition] {
        out.clear();
        let (outcome, allocations, _) = allocated(|| Frame::encode(1, &performative, b"payload", &mut out));
        assert!(outcome.is_ok() && allocations == 0, "{allocations} allocations");
        let bytes = Bytes::copy_from_slice(&out);
        let header = FrameHeader::decode(&bytes, 1_024).unwrap().unwrap();
        // Bytes made of a vector allocate once when they are first shared.
        drop(bytes.clone());
        let (frame, allocations, _) = allocated(|| Frame::decode(header, &bytes, Limits::default()));
        assert_eq!(frame.unwrap().performative, Some(performative));
        assert_eq!(allocations, 0);
    }
}

/// Rules: A-43.
#[test]
fn a_message_is_split_without_an_allocation_whatever_its_body() {
    let mut bytes = vec![0, 0x53, 0x77, 0xd0];
    bytes.extend_from_slice(&60_004_u32.to_be_bytes());
    bytes.extend_from_slice(&60_000_u32.to_be_bytes());
    bytes.resize(bytes.len() + 60_000, 0x40);
    let bytes = Bytes::from(bytes);
    let (message, allocations, _) = allocated(|| EncodedMessage::split(bytes));
    assert_eq!(allocations, 0);
    assert!(message.unwrap().value().unwrap().is_some());
}
