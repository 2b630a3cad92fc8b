use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

use consign_codecs::{CodecSet, Codecs, Json, MessagePack, Protobuf};
use serde::Deserialize;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

/// Counts the allocations of this thread.
struct Counting;

// SAFETY: every call goes to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[derive(Debug, PartialEq, Deserialize)]
struct Order<'a> {
    id: u64,
    name: &'a str,
}

fn allocations<S: CodecSet>(codecs: &Codecs<S>, declared: Option<&str>, body: &[u8]) -> usize {
    let before = ALLOCATIONS.get();
    let order: Order<'_> = codecs.decode(declared, body).unwrap();
    let after = ALLOCATIONS.get();
    assert_eq!(order, Order { id: 7, name: "nails" });
    after - before
}

#[test]
fn the_common_ways_allocate_nothing() {
    let json = br#"{"id":7,"name":"nails"}"#;
    let msgpack = b"\x82\xa2id\x07\xa4name\xa5nails";
    let codecs = Codecs::builder().with(Json::default()).with(MessagePack).fallback(["msgpack"]).build().unwrap();
    for (declared, body) in [
        (Some("application/json"), &json[..]),
        (Some("text/json"), json),
        (Some("text/x-json"), json),
        (Some("application/vnd.msgpack"), msgpack),
        (None, json),
    ] {
        assert_eq!(allocations(&codecs, declared, body), 0, "{declared:?}");
    }
    for declared in ["application/json; charset=utf-8", "application/vnd.acme.order+json"] {
        assert_ne!(allocations(&codecs, Some(declared), json), 0, "nothing is counted");
        assert_eq!(allocations(&codecs, Some(declared), json), 0, "{declared} is known");
    }
}

#[test]
fn a_declared_protobuf_message_allocates_nothing() {
    let codecs = Codecs::builder().with(Json::default()).build().unwrap();
    // Three fields, of which the type has the first.
    let body = b"\x08\x07\x10\x01\x1a\x01x";
    for declared in ["application/protobuf", "application/x-protobuf"] {
        let before = ALLOCATIONS.get();
        let Protobuf(number): Protobuf<u64> = codecs.decode(Some(declared), body).unwrap();
        assert_eq!((number, ALLOCATIONS.get() - before), (7, 0), "{declared}");
    }
}
