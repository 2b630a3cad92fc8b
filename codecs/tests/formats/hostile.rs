use std::collections::BTreeMap;

use consign_codecs::{DecodeErrorKind as Kind, Limits};
use serde::{Deserialize, Serialize, de::IgnoredAny};
use serde_bytes::ByteBuf;
use serde_json::Value;

use crate::support::{
    ALL, CBOR, Fixint, JSON, MSGPACK, Node, Order, POSITIONAL, POSTCARD, SELF_DESCRIBING, Varint, Which,
    on_a_small_stack, order,
};

fn kind<T: for<'de> Deserialize<'de>>(codec: Which, body: &[u8]) -> Option<Kind> {
    let limits = Limits::default().bytes(Limits::MAX_BYTES);
    codec.decode_within::<T>(body, &limits).err().map(|error| error.kind())
}

#[derive(Debug, Deserialize)]
struct Known {
    #[serde(rename = "known")]
    _known: u32,
}

/// Attacks: 1.
#[test]
fn json_arrays() {
    on_a_small_stack(|| {
        let body = "[".repeat(1_000_000);
        for codec in [JSON, Which::Strict] {
            assert_eq!(kind::<Value>(codec, body.as_bytes()), Some(Kind::Depth));
            assert_eq!(kind::<IgnoredAny>(codec, body.as_bytes()), Some(Kind::Depth));
        }
    });
}

/// Attacks: 2.
#[test]
fn json_objects_in_a_field_that_the_type_ignores() {
    on_a_small_stack(|| {
        let open = "{\"a\":".repeat(100_000);
        let closed = "}".repeat(100_000);
        for body in [format!("{{\"known\":1,\"other\":{open}"), format!("{{\"known\":1,\"other\":{open}1{closed}}}")] {
            assert_eq!(kind::<Known>(JSON, body.as_bytes()), Some(Kind::Depth));
        }
        let shallow = format!("{{\"known\":1,\"other\":{}{}}}", "[".repeat(63), "]".repeat(63));
        assert_eq!(kind::<Known>(JSON, shallow.as_bytes()), None);
        let deep = format!("{{\"known\":1,\"other\":{}{}}}", "[".repeat(64), "]".repeat(64));
        assert_eq!(kind::<Known>(JSON, deep.as_bytes()), Some(Kind::Depth));
    });
}

/// Attacks: 30.
/// As Json.NET writes the name of a type to create.
#[test]
fn a_type_that_a_body_names_is_a_field() {
    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Exact {
        #[serde(rename = "known")]
        _known: u32,
    }
    let body = br#"{"$type":"System.Windows.Data.ObjectDataProvider, PresentationFramework","known":1}"#;
    for codec in [JSON, Which::Strict] {
        assert_eq!(kind::<Known>(codec, body), None);
        assert_eq!(kind::<Exact>(codec, body), Some(Kind::Type));
        let Value::Object(fields) = codec.decode::<Value>(body).unwrap() else { panic!("an object") };
        assert!(fields["$type"].is_string());
    }
}

/// Attacks: 3.
#[test]
fn msgpack_arrays() {
    on_a_small_stack(|| {
        assert_eq!(kind::<Value>(MSGPACK, &vec![0x91; 100_000]), Some(Kind::Depth));
        assert_eq!(kind::<IgnoredAny>(MSGPACK, &vec![0x91; 100_000]), Some(Kind::Depth));
    });
}

/// Attacks: 4.
#[test]
fn msgpack_arrays_in_a_debug_build() {
    on_a_small_stack(|| assert_eq!(kind::<Value>(MSGPACK, &[0x91; 1_000]), Some(Kind::Depth)));
}

/// Attacks: 5.
#[test]
fn cbor_arrays_tags_and_indefinite_arrays() {
    on_a_small_stack(|| {
        for head in [0x81, 0xc1, 0x9f, 0xbf] {
            let body = vec![head; 1_000_000];
            assert_eq!(kind::<Value>(CBOR, &body), Some(Kind::Depth), "{head:#x}");
            assert_eq!(kind::<IgnoredAny>(CBOR, &body), Some(Kind::Depth), "{head:#x}");
        }
    });
}

#[test]
fn depth_64_is_accepted_and_65_refused_by_each_self_describing_codec() {
    on_a_small_stack(|| {
        let nested = |depth: usize| {
            let mut value = Value::Array(vec![]);
            for _ in 1..depth {
                value = Value::Array(vec![value]);
            }
            value
        };
        for codec in SELF_DESCRIBING {
            for (depth, expected) in [(64, None), (65, Some(Kind::Depth))] {
                let body = codec.encode(&nested(depth)).unwrap();
                assert_eq!(codec.kind::<Value>(&body), expected, "{codec:?} {depth}");
                assert_eq!(codec.kind::<IgnoredAny>(&body), expected, "{codec:?} {depth}");
            }
        }
    });
}

#[test]
fn the_largest_depth_fits_a_small_stack() {
    on_a_small_stack(|| {
        let limits = Limits::default().depth(1_000);
        assert_eq!(limits.depth, Limits::MAX_DEPTH);
        for codec in [SELF_DESCRIBING.as_slice(), &POSITIONAL].concat() {
            // serde_json stops one short of the maximum by itself.
            let body = codec.encode(&Node::chain(127)).unwrap();
            assert!(codec.decode_within::<Node>(&body, &limits).is_ok(), "{codec:?}");
            let body = codec.encode(&Node::chain(129)).unwrap();
            let error = codec.decode_within::<Node>(&body, &limits).unwrap_err();
            assert_eq!(error.kind(), Kind::Depth, "{codec:?}");
        }
    });
}

#[test]
fn a_recursive_type_is_as_deep_in_a_positional_codec_as_in_the_others() {
    on_a_small_stack(|| {
        for codec in [SELF_DESCRIBING.as_slice(), &POSITIONAL].concat() {
            let accepted = codec.encode(&Node::chain(64)).unwrap();
            let refused = codec.encode(&Node::chain(65)).unwrap();
            assert_eq!(codec.kind::<Node>(&accepted), None, "{codec:?}");
            assert_eq!(codec.kind::<Node>(&refused), Some(Kind::Depth), "{codec:?}");
        }
    });
}

#[test]
fn a_type_that_recurses_by_any_means_stops() {
    #[derive(Debug, Deserialize)]
    struct Options(#[allow(dead_code)] Option<Box<Options>>);

    #[derive(Debug, Deserialize)]
    enum Enums {
        _End,
        _More(#[allow(dead_code)] Box<Enums>),
    }

    #[derive(Debug, Deserialize)]
    struct Vectors(#[allow(dead_code)] Vec<Vectors>);

    #[derive(Debug, Deserialize)]
    struct Maps(#[allow(dead_code)] BTreeMap<(), Maps>);

    on_a_small_stack(|| {
        let ones = vec![1; 256 << 10];
        for codec in POSITIONAL {
            assert_eq!(codec.kind::<Node>(&ones), Some(Kind::Depth), "{codec:?}");
            assert_eq!(codec.kind::<Options>(&ones), Some(Kind::Depth), "{codec:?}");
        }
        for codec in [Varint, POSTCARD] {
            assert_eq!(codec.kind::<Enums>(&ones), Some(Kind::Depth), "{codec:?}");
            assert_eq!(codec.kind::<Vectors>(&ones), Some(Kind::Depth), "{codec:?}");
            assert_eq!(codec.kind::<Maps>(&ones), Some(Kind::Depth), "{codec:?}");
        }
        let long = 1_u64.to_le_bytes().repeat(32 << 10);
        assert_eq!(Fixint.kind::<Vectors>(&long), Some(Kind::Depth));
        assert_eq!(Fixint.kind::<Enums>(&1_u32.to_le_bytes().repeat(64 << 10)), Some(Kind::Depth));
    });
}

/// Attacks: 11.
#[test]
fn msgpack_lengths() {
    on_a_small_stack(|| {
        for marker in [0xc6, 0xdb, 0xc9] {
            let body = [marker, 0xff, 0xff, 0xff, 0xff, 1, 2, 3];
            assert_eq!(MSGPACK.kind::<ByteBuf>(&body), Some(Kind::Length), "{marker:#x}");
            assert_eq!(MSGPACK.kind::<IgnoredAny>(&body), Some(Kind::Length), "{marker:#x}");
        }
    });
}

/// Attacks: 12.
#[test]
fn msgpack_counts() {
    on_a_small_stack(|| {
        for marker in [0xdd, 0xdf] {
            let body = [marker, 0xff, 0xff, 0xff, 0xff, 1, 2, 3];
            assert_eq!(MSGPACK.kind::<Vec<u8>>(&body), Some(Kind::Count), "{marker:#x}");
            assert_eq!(MSGPACK.kind::<Value>(&body), Some(Kind::Count), "{marker:#x}");
        }
    });
}

/// Attacks: 13.
#[test]
fn cbor_lengths_and_counts() {
    on_a_small_stack(|| {
        for (head, expected) in [(0x5b, Kind::Length), (0x7b, Kind::Length), (0x9b, Kind::Count), (0xbb, Kind::Count)] {
            let body = [&[head][..], &(1_u64 << 40).to_be_bytes(), &[0; 3]].concat();
            assert_eq!(CBOR.kind::<Value>(&body), Some(expected), "{head:#x}");
            let body = [&[head][..], &u64::MAX.to_be_bytes(), &[0; 3]].concat();
            assert_eq!(CBOR.kind::<IgnoredAny>(&body), Some(expected), "{head:#x}");
        }
    });
}

/// Attacks: 14.
#[test]
fn lengths_in_positional_codecs() {
    on_a_small_stack(|| {
        let fixint = [&(1_u64 << 33).to_le_bytes()[..], &[0; 3]].concat();
        let varint = [&[253][..], &fixint].concat();
        let postcard = [0x80, 0x80, 0x80, 0x80, 0x20, 0, 0, 0];
        for (codec, body) in [(Fixint, &fixint[..]), (Varint, &varint), (POSTCARD, &postcard)] {
            assert_eq!(codec.kind::<String>(body), Some(Kind::Length), "{codec:?}");
            assert_eq!(codec.kind::<ByteBuf>(body), Some(Kind::Length), "{codec:?}");
            let borrowed = codec.decode::<&str>(body).map_err(|error| error.kind());
            assert_eq!(borrowed, Err(Kind::Length), "{codec:?}");
        }
    });
}

/// Attacks: 15.
#[test]
#[allow(clippy::zero_sized_map_values)]
fn elements_of_no_size() {
    on_a_small_stack(|| {
        let fixint = (1_u64 << 40).to_le_bytes();
        let varint = [&[253][..], &fixint].concat();
        let postcard = [0x80, 0x80, 0x80, 0x80, 0x80, 0x20];
        for (codec, body) in [(Fixint, &fixint[..]), (Varint, &varint), (POSTCARD, &postcard)] {
            assert_eq!(codec.kind::<Vec<()>>(body), Some(Kind::Count), "{codec:?}");
            assert_eq!(codec.kind::<BTreeMap<(), ()>>(body), Some(Kind::Count), "{codec:?}");
        }
        for codec in POSITIONAL {
            assert_eq!(codec.kind::<Vec<()>>(&codec.encode(&vec![(); 65_536]).unwrap()), None, "{codec:?}");
            let over = codec.encode(&vec![(); 65_537]).unwrap();
            assert_eq!(codec.kind::<Vec<()>>(&over), Some(Kind::Count), "{codec:?}");
        }
    });
}

#[test]
fn elements_are_limited_in_every_codec() {
    on_a_small_stack(|| {
        let limits = Limits::default().elements(10);
        for codec in [SELF_DESCRIBING.as_slice(), &POSITIONAL].concat() {
            for (len, expected) in [(10_u16, None), (11, Some(Kind::Count))] {
                let array = codec.encode(&(0..len).collect::<Vec<_>>()).unwrap();
                let kind = codec.decode_within::<Vec<u16>>(&array, &limits).err().map(|error| error.kind());
                assert_eq!(kind, expected, "{codec:?} array of {len}");
                let map = codec.encode(&(0..len).map(|n| (n, n)).collect::<BTreeMap<_, _>>()).unwrap();
                let kind = codec.decode_within::<BTreeMap<u16, u16>>(&map, &limits).err().map(|error| error.kind());
                assert_eq!(kind, expected, "{codec:?} map of {len}");
            }
        }
    });
}

/// Rules: P-124.
#[test]
fn elements_are_limited_over_the_whole_body() {
    on_a_small_stack(|| {
        let limits = Limits::default().elements(10);
        for codec in [SELF_DESCRIBING.as_slice(), &POSITIONAL].concat() {
            for (lists, expected) in [(3, None), (4, Some(Kind::Count))] {
                let body = codec.encode(&vec![vec![1_u8, 2]; lists]).unwrap();
                let kind = codec.decode_within::<Vec<Vec<u8>>>(&body, &limits).err().map(|error| error.kind());
                assert_eq!(kind, expected, "{codec:?}: {lists} lists of two");
                let maps: Vec<_> = (0..lists).map(|_| BTreeMap::from([(1_u8, 1_u8), (2, 2)])).collect();
                let body = codec.encode(&maps).unwrap();
                let kind = codec.decode_within::<Vec<BTreeMap<u8, u8>>>(&body, &limits).err().map(|error| error.kind());
                assert_eq!(kind, expected, "{codec:?}: {lists} maps of two");
            }
        }
        for codec in POSITIONAL {
            // What the type counts is not an element of the body.
            let body = codec.encode(&vec![(1_u8, 2_u8, 3_u8); 10]).unwrap();
            assert!(codec.decode_within::<Vec<(u8, u8, u8)>>(&body, &limits).is_ok(), "{codec:?}");
        }
    });
}

/// Attacks: 22.
#[test]
fn every_truncation_is_refused() {
    on_a_small_stack(|| {
        for codec in [SELF_DESCRIBING.as_slice(), &POSITIONAL].concat() {
            let body = codec.encode(&order()).unwrap();
            for end in 1..body.len() {
                assert_eq!(codec.kind::<Order>(&body[..end]), Some(Kind::Truncated), "{codec:?} {end}");
            }
            assert_eq!(codec.kind::<Order>(&[]), Some(Kind::EmptyBody), "{codec:?}");
        }
    });
}

/// Attacks: 23.
#[test]
fn trailing_bytes_are_refused() {
    on_a_small_stack(|| {
        for codec in [SELF_DESCRIBING.as_slice(), &POSITIONAL].concat() {
            for trailing in [&b"1"[..], b"{", b"\xc0\xc0"] {
                let body = [&codec.encode(&order()).unwrap()[..], trailing].concat();
                // 0xc0 is no UTF-8, which JSON sees first.
                let expected = match codec {
                    Which::Json | Which::Strict if trailing[0] == 0xc0 => Kind::Utf8,
                    _ => Kind::Trailing,
                };
                assert_eq!(codec.kind::<Order>(&body), Some(expected), "{codec:?} {trailing:x?}");
            }
        }
    });
}

/// Attacks: 45.
#[test]
fn invalid_utf_8_in_a_string() {
    on_a_small_stack(|| {
        for codec in [SELF_DESCRIBING.as_slice(), &POSITIONAL].concat() {
            let mut body = codec.encode(&order()).unwrap();
            let at = body.windows(4).position(|window| window == b"A-17").unwrap();
            body[at + 1] = 0xff;
            assert_eq!(codec.kind::<Order>(&body), Some(Kind::Utf8), "{codec:?}");
        }
    });
}

/// Attacks: 47.
#[test]
fn a_lone_surrogate() {
    for body in [r#""\ud800""#, r#""\udc00""#, r#""\ud800\u0041""#] {
        assert_eq!(JSON.kind::<String>(body.as_bytes()), Some(Kind::Syntax), "{body}");
        assert_eq!(Which::Strict.kind::<String>(body.as_bytes()), Some(Kind::Syntax), "{body}");
    }
}

/// Attacks: 57.
#[test]
fn keys_that_collide_elsewhere() {
    // Multiples of a large power of two collide in a table that takes the low bits.
    let body = format!("{{{}}}", (0_u64..10_000).map(|n| format!("\"{}\":0", n << 40)).collect::<Vec<_>>().join(","));
    let limits = Limits::default().bytes(1 << 20);
    let map = Which::Strict.decode_within::<std::collections::HashMap<u64, u8>>(body.as_bytes(), &limits).unwrap();
    assert_eq!(map.len(), 10_000);
}

/// Attacks: 58.
#[test]
fn duplicate_keys() {
    #[derive(Debug, Deserialize, Serialize)]
    struct A {
        a: u32,
    }
    let body = br#"{"a":1,"a":2}"#;
    assert_eq!(Which::Strict.kind::<Value>(body), Some(Kind::DuplicateKey));
    assert_eq!(JSON.kind::<Value>(body), None);
    for (codec, body) in [(JSON, &body[..]), (MSGPACK, b"\x82\xa1a\x01\xa1a\x02"), (CBOR, b"\xa2\x61a\x01\x61a\x02")] {
        assert_eq!(codec.kind::<A>(body), Some(Kind::DuplicateKey), "{codec:?}");
    }
}

/// Attacks: 61.
#[test]
fn a_number_of_many_digits() {
    let body = "1".repeat(100_000);
    assert_eq!(Which::Strict.kind::<f64>(body.as_bytes()), Some(Kind::Syntax));
    assert_eq!(Which::Strict.kind::<IgnoredAny>(body.as_bytes()), Some(Kind::Syntax));
}

#[test]
fn a_body_over_the_size_is_refused_by_every_codec() {
    let limits = Limits::default().bytes(3);
    for codec in ALL {
        let kind = codec.decode_within::<IgnoredAny>(b"1234", &limits).err().map(|error| error.kind());
        assert_eq!(kind, Some(Kind::Size), "{codec:?}");
    }
}

#[test]
fn errors_say_where() {
    let text = |codec: Which, body: &[u8]| codec.decode::<Order>(body).unwrap_err().position().map(|at| at.to_string());
    assert_eq!(text(JSON, b"{\n  \"id\": x}").as_deref(), Some("2:9"));
    assert_eq!(text(JSON, b"{\n  \"id\": \"\xff\"}").as_deref(), Some("2:10"));
    assert_eq!(text(MSGPACK, &[0x81, 0xa2, b'i', b'd', 0xc1]).as_deref(), Some("4"));
    assert_eq!(text(CBOR, &[0xa1, 0x62, b'i', b'd', 0xff]).as_deref(), Some("4"));
}
