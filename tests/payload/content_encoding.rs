use std::time::Duration;

use consign::{
    Disposition, Message, MessageExt,
    codecs::Trail,
    message::{MessageBody, PropertyValue, Value},
    middleware::content_encoding::{CompressLayer, DecompressLayer, Encoding},
    settlement::{DeadLetter, DeadLetterReason},
    transport::{Batch, SendService},
};
use proptest::{collection::vec, prelude::*};
use tokio_test::{assert_pending, task};
use tower::{BoxError, Layer, Service, service_fn};

use super::{
    random::{explain, runner},
    stacks::{no_time_of_its_own, received, sent},
    support::Broker,
};

const ALL: [Encoding; 3] = [Encoding::Gzip, Encoding::Zstd, Encoding::Deflate];

/// What `gzip -9`, `zstd -19`, `zstd -3` and `zstd --long=27` made of [`lines`], the last two without knowing how much
/// was to come.
const GZIP: &[u8] = include_bytes!("samples/lines.gz");
const ZSTD: &[u8] = include_bytes!("samples/lines.zst");
const ZSTD_STREAMED: &[u8] = include_bytes!("samples/lines-streamed.zst");
const ZSTD_WINDOW_27: &[u8] = include_bytes!("samples/lines-window-27.zst");

/// What Python's `zstandard`, `gzip` and `zlib` made of [`lines`]. The frames are: one to be skipped, the first half, another to
/// be skipped, the second half without its size, and one to be skipped. The members are the first half, nothing, and the second
/// half.
const PYTHON: [(&str, &[u8]); 5] = [
    ("zstd", include_bytes!("samples/python.zst")),
    ("zstd", include_bytes!("samples/python-frames.zst")),
    ("gzip", include_bytes!("samples/python-members.gz")),
    ("deflate", ZLIB),
    ("deflate", include_bytes!("samples/python.deflate")),
];
const ZLIB: &[u8] = include_bytes!("samples/python.zlib");

fn lines() -> String {
    (0..100).map(|n| format!("{{\"id\":{n},\"sku\":\"sku-{}\"}}\n", n % 7)).collect::<Vec<_>>().concat()
}

fn encoded(encoding: &str, body: impl Into<MessageBody>) -> Message {
    let mut message = Message::builder().content_type("application/json").build(body).unwrap();
    message.properties_mut().pass_through_mut().content_encoding = Some(encoding.to_owned().into());
    message
}

fn encoding_of(message: &Message) -> Option<&str> {
    message.pass_through()?.content_encoding.as_deref()
}

/// Reads what a `CompressLayer` around a sender of replies has made.
#[test]
fn a_reply_is_decompressed_outside_of_a_stack() {
    let layer = DecompressLayer::new(ALL);
    for encoding in ALL {
        let message = sent(&CompressLayer::new(encoding), Message::new(lines()));
        assert!(encoding_of(&message).is_some());
        let read = layer.decompress(message.clone()).unwrap();
        assert_eq!((read.payload(), encoding_of(&read)), (Some(lines().as_bytes()), None));
        assert_eq!(layer.decompress(read).unwrap().payload(), Some(lines().as_bytes()));
        assert!(layer.clone().max_bytes(10).decompress(message).is_err());
    }
}

/// Reason and code of a dead letter.
fn refused(layer: &DecompressLayer, message: Message) -> (DeadLetterReason, String) {
    let letter = received(layer, message).expect_err("a dead letter");
    let trail = letter.changes.properties().and_then(|added| added.get(DeadLetter::TRAIL));
    let trail: Trail = trail.and_then(PropertyValue::as_str).expect("a trail").parse().expect("a trail");
    (letter.reason, trail.entries()[0].code().to_owned())
}

fn every() -> DecompressLayer {
    DecompressLayer::new(ALL)
}

/// Rules: H-01.
#[test]
fn a_compressed_body_says_so_and_comes_back() {
    for encoding in ALL {
        let message = Message::builder().content_type("application/json").property("k", 1).build(lines()).unwrap();
        let sent = sent(&CompressLayer::new(encoding), message);
        assert_eq!((encoding_of(&sent), sent.content_type()), (Some(encoding.name()), Some("application/json")));
        assert!(sent.body().size() < 1_000, "{}", sent.body().size());

        let seen = received(&every(), sent).unwrap();
        assert_eq!(seen.payload(), Some(lines().as_bytes()));
        assert_eq!(
            (encoding_of(&seen), seen.content_type(), seen.application_properties().len()),
            (None, Some("application/json"), 1)
        );
    }
}

/// Rules: H-01.
#[test]
fn output_of_other_encoders_is_read() {
    for (name, body) in [("gzip", GZIP), ("X-GZip", GZIP), ("zstd", ZSTD), (" ZSTD\t", ZSTD), ("zstd", ZSTD_STREAMED)] {
        assert_eq!(received(&every(), encoded(name, body)).unwrap().payload(), Some(lines().as_bytes()), "{name}");
    }
}

/// Rules: H-01.
#[test]
fn a_batch_is_compressed_message_by_message() {
    let broker = Broker::default();
    let mut stack = CompressLayer::new(Encoding::Gzip).layer(SendService::new(broker.clone()));
    assert_pending!(task::spawn(stack.call(Batch::from([Message::new(lines()), Message::new("short")]))).poll());
    let messages = broker.messages(0);
    assert_eq!((encoding_of(&messages[0]), encoding_of(&messages[1])), (Some("gzip"), None));
}

/// Rules: H-01.
#[test]
fn any_body_comes_back() {
    let bodies = prop_oneof![
        vec(any::<u8>(), 0..2_000),
        // Much that comes again.
        (vec(any::<u8>(), 1..50), 1..200_usize).prop_map(|(piece, times)| piece.repeat(times)),
        // Over one block of zstd.
        (vec(0..8_u8, 500..1_000), 150..250_u8).prop_map(|(piece, times)| {
            let salted = (0..times).flat_map(|n| piece.iter().map(move |byte| byte.wrapping_mul(n | 1)));
            salted.collect()
        }),
    ];
    let result = runner(30).run(&bodies, |body| {
        for encoding in ALL {
            let sent = sent(&CompressLayer::new(encoding).threshold(0), Message::new(body.clone()));
            let seen = received(&every().max_bytes(1 << 20), sent).unwrap();
            prop_assert_eq!(seen.payload(), Some(&body[..]));
        }
        Ok(())
    });
    explain(result, "any_body_comes_back");
}

/// Rules: H-02.
#[test]
fn bodies_that_do_not_get_smaller_are_unchanged() {
    let layer = CompressLayer::new(Encoding::Zstd);
    let noise: Vec<u8> =
        (0..4_096_u32).flat_map(|n| n.wrapping_mul(2_654_435_761).rotate_left(n % 31).to_le_bytes()).collect();
    let same = |message: Message| {
        let after = sent(&layer, message.clone());
        assert_eq!((after.body(), encoding_of(&after)), (message.body(), encoding_of(&message)));
    };
    same(Message::new("x".repeat(1_023)));
    same(Message::new(Value::from("x".repeat(5_000))));
    same(encoded("br", lines()));
    same(Message::new(GZIP.repeat(20)));
    same(Message::new(ZSTD.repeat(20)));
    let compressed = sent(&layer, Message::new(noise.clone()));
    assert!(compressed.body().size() <= noise.len());
    assert_eq!(encoding_of(&sent(&layer, Message::new(lines()))), Some("zstd"));
}

/// Rules: H-03.
#[test]
fn bodies_beyond_the_ratio_are_sent_uncompressed() {
    for encoding in ALL {
        let zeros = sent(&CompressLayer::new(encoding), Message::new(vec![0; 200 << 10]));
        assert_eq!((encoding_of(&zeros), zeros.body().size()), (None, 200 << 10));
    }
}

/// Rules: H-04.
#[test]
fn an_encoding_that_is_not_allowed_is_a_dead_letter() {
    let only_gzip = DecompressLayer::new([Encoding::Gzip]);
    for (name, body) in [("zstd", ZSTD), ("br", b"x"), ("aes128gcm", b"x"), ("Z\u{1b}", b"x"), (&"e".repeat(200), b"x")]
    {
        let (reason, code) = refused(&only_gzip, encoded(name, body));
        assert_eq!((reason, code.as_str()), (DeadLetterReason::UnsupportedEncoding, "Encoding"), "{name}");
    }
    let letter = received(&only_gzip, encoded(&"e\u{1b}".repeat(200), "x")).unwrap_err();
    assert!(letter.description.len() < 500 && !letter.description.contains('\u{1b}'), "{}", letter.description);
    for plain in ["", "identity", "Identity", "utf-8", "UTF-8, binary", "7bit"] {
        assert_eq!(received(&only_gzip, encoded(plain, "x")).unwrap().payload(), Some(&b"x"[..]));
    }
    let (reason, code) = refused(&every(), encoded("gzip", Value::from(7)));
    assert_eq!((reason, code.as_str()), (DeadLetterReason::UnsupportedEncoding, "NotBytes"));
}

/// Rules: B-270.
#[test]
fn a_binary_and_a_string_value_are_bytes() {
    let message = received(&every(), encoded("gzip", Value::from(bytes::Bytes::from_static(GZIP)))).unwrap();
    assert_eq!((message.payload(), encoding_of(&message)), (Some(lines().as_bytes()), None));
    let (reason, code) = refused(&every(), encoded("gzip", Value::from("text that is no gzip")));
    assert_eq!((reason, code.as_str()), (DeadLetterReason::DeserializationFailed, "Syntax"));
}

/// 64 MiB of zeros.
fn gzip_bomb() -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    let zeros = vec![0; 1 << 20];
    (0..64).for_each(|_| encoder.write_all(&zeros).unwrap());
    encoder.finish().unwrap()
}

/// 64 MiB of zeros, in blocks of one repeated byte: a header and four bytes a block.
fn zstd_bomb() -> Vec<u8> {
    let block = |last: u32| {
        let [a, b, c, _] = ((128 << 10) << 3 | 1 << 1 | last).to_le_bytes();
        [a, b, c, 0]
    };
    let mut bomb = vec![0x28, 0xB5, 0x2F, 0xFD, 0, 13 << 3];
    (0..511).for_each(|_| bomb.extend(block(0)));
    bomb.extend(block(1));
    bomb
}

/// Rules: H-05.
/// Attacks: 24, 25.
#[test]
fn a_body_over_the_limits_is_a_dead_letter() {
    let most = every().max_bytes(100 << 20);
    for (name, bomb) in [("gzip", gzip_bomb()), ("zstd", zstd_bomb()), ("deflate", gzip_bomb()[10..].to_vec())] {
        let message = encoded(name, bomb);
        let (reason, code) = refused(&most, message.clone());
        assert_eq!((reason, code.as_str()), (DeadLetterReason::LimitExceeded, "Ratio"), "{name}");
        let (reason, _) = refused(&every(), message);
        assert_eq!(reason, DeadLetterReason::LimitExceeded, "{name}");
    }
    // A window takes no memory, for a frame is decoded into the body.
    let seen = received(&every(), encoded("zstd", ZSTD_WINDOW_27)).unwrap();
    assert_eq!(seen.payload(), Some(lines().as_bytes()));
    let window = |exponent: u8| encoded("zstd", vec![0x28, 0xB5, 0x2F, 0xFD, 0, exponent << 3, 1, 0, 0]);
    for exponent in [0, 14, 21] {
        assert_eq!(received(&every(), window(exponent)).unwrap().payload(), Some(&b""[..]), "{exponent}");
    }
    let (reason, code) = refused(&every(), window(31));
    assert_eq!((reason, code.as_str()), (DeadLetterReason::LimitExceeded, "Window"));
    // A size that is declared is believed only when it is too large.
    let declared = [&[0x28, 0xB5, 0x2F, 0xFD, 0b1110_0000][..], &(u64::MAX >> 1).to_le_bytes(), &[1, 0, 0]].concat();
    assert_eq!(refused(&every(), encoded("zstd", declared)).0, DeadLetterReason::LimitExceeded);
}

/// Rules: H-05.
#[test]
fn limits_are_exact() {
    for (name, body) in [("gzip", GZIP), ("zstd", ZSTD), ("zstd", ZSTD_STREAMED)] {
        let size = lines().len();
        received(&every().max_bytes(size), encoded(name, body)).unwrap();
        let (reason, code) = refused(&every().max_bytes(size - 1), encoded(name, body));
        assert_eq!((reason, code.as_str()), (DeadLetterReason::LimitExceeded, "Size"), "{name}");
        received(&every().max_ratio(size.div_ceil(body.len())), encoded(name, body)).unwrap();
        let (_, code) = refused(&every().max_ratio(size / body.len()), encoded(name, body));
        assert_eq!(code, "Ratio", "{name}");
    }
}

/// Rules: H-06.
/// Attacks: 27.
#[test]
fn one_encoding_and_no_more() {
    for names in ["gzip, gzip", "gzip,zstd", "identity, gzip, utf-8, gzip", "gzip:zstd"] {
        let (reason, code) = refused(&every(), encoded(names, GZIP));
        assert_eq!((reason, code.as_str()), (DeadLetterReason::UnsupportedEncoding, "Nested"), "{names}");
    }
    for names in ["identity, gzip", "gzip , UTF-8", ",gzip,", "gzip:UTF-8"] {
        let seen = received(&every(), encoded(names, GZIP)).unwrap();
        assert_eq!((seen.payload(), encoding_of(&seen)), (Some(lines().as_bytes()), None), "{names}");
    }
    let twice = {
        use std::io::Write;
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(ZSTD).unwrap();
        encoder.finish().unwrap()
    };
    let (reason, code) = refused(&every(), encoded("gzip", twice));
    assert_eq!((reason, code.as_str()), (DeadLetterReason::UnsupportedEncoding, "Nested"));
}

/// Rules: H-07.
/// Attacks: 22, 28.
#[test]
fn every_truncation_and_what_follows_is_distinguished() {
    for (name, body) in [("gzip", GZIP), ("zstd", ZSTD), ("zstd", ZSTD_STREAMED), ("deflate", ZLIB)] {
        for length in 0..body.len() {
            // A frame of zstd says early how much is to come.
            let is_too_much = body == ZSTD && length >= 7 && length * 100 < lines().len();
            let expected = match length {
                _ if is_too_much => (DeadLetterReason::LimitExceeded, "Ratio"),
                _ => (DeadLetterReason::DeserializationFailed, "Truncated"),
            };
            let (reason, code) = refused(&every(), encoded(name, &body[..length]));
            assert_eq!((reason, code.as_str()), expected, "{name} {length}");
        }
        for more in [&b"\0"[..], b"more", b"\x1f\x8c", b"\x28\xb5\x2f\xfe"] {
            let (reason, code) = refused(&every(), encoded(name, [body, more].concat()));
            assert_eq!((reason, code.as_str()), (DeadLetterReason::DeserializationFailed, "Trailing"), "{name}");
        }
        let (reason, code) = refused(&every(), encoded(name, "plain text, whatever is declared"));
        assert_eq!((reason, code.as_str()), (DeadLetterReason::DeserializationFailed, "Syntax"), "{name}");
    }
    // A reserved bit, a dictionary, and another size than the declared one.
    let single = [0x28, 0xB5, 0x2F, 0xFD];
    for frame in [
        &[0x28, 0x18, 3, 0x19, 0, 0, b'a', b'b', b'c'][..],
        &[0x21, 7, 3, 0x19, 0, 0, b'a', b'b', b'c'],
        &[0x20, 4, 0x19, 0, 0, b'a', b'b', b'c'],
        // What would be a frame without that bit.
        &[0x28, 3, 0x19, 0, 0, b'a', b'b', b'c'],
    ] {
        let (_, code) = refused(&every(), encoded("zstd", [&single[..], frame].concat()));
        assert_eq!(code, "Syntax", "{frame:?}");
    }
    let plain = [&single[..], &[0x20, 3, 0x19, 0, 0, b'a', b'b', b'c']].concat();
    assert_eq!(received(&every(), encoded("zstd", plain)).unwrap().payload(), Some(&b"abc"[..]));
}

/// Coders are kept for the next message, and have nothing of the one before, whatever became of it.
#[test]
fn a_message_depends_on_none_before_it() {
    for encoding in ALL {
        let layer = |level| CompressLayer::new(encoding).threshold(0).level(level);
        let compressed = |level| sent(&layer(level), Message::new(orders(60))).payload().map(<[u8]>::to_vec);
        let first = compressed(1);
        let wire = encoded(encoding.name(), first.clone().expect("bytes"));
        for between in [lines().into_bytes(), vec![0; 200 << 10], GZIP[10..].repeat(3), vec![7]] {
            sent(&layer(9), Message::new(between));
            // Refused half-way, and over the limit.
            let cut = first.as_deref().and_then(|bytes| bytes.get(..bytes.len() / 2)).expect("a half");
            assert_eq!(refused(&every(), encoded(encoding.name(), cut.to_vec())).1, "Truncated");
            assert_eq!(refused(&every().max_bytes(100), wire.clone()).1, "Size");
            assert_eq!(compressed(1), first, "{encoding:?}");
            assert_eq!(received(&every(), wire.clone()).unwrap().payload(), Some(orders(60).as_bytes()));
        }
    }
}

/// Rules: H-01.
/// What is sent is read by another decoder than this library's.
#[test]
fn another_decoder_reads_gzip_and_deflate() {
    use std::io::Read;
    for count in [1, 10, 60, 2_000] {
        let body = orders(count).repeat(2);
        for level in [1, 2, 6, 9] {
            let sent = |encoding| {
                let sent = sent(&CompressLayer::new(encoding).threshold(0).level(level), Message::new(body.clone()));
                assert_eq!(encoding_of(&sent), Some(encoding.name()));
                sent.payload().expect("bytes").to_vec()
            };
            let (mut gzip, mut zlib) = (Vec::new(), Vec::new());
            flate2::read::GzDecoder::new(&*sent(Encoding::Gzip)).read_to_end(&mut gzip).unwrap();
            flate2::read::ZlibDecoder::new(&*sent(Encoding::Deflate)).read_to_end(&mut zlib).unwrap();
            assert!(gzip == body.as_bytes() && zlib == body.as_bytes(), "{count} {level}");
        }
    }
}

/// Rules: H-102.
#[test]
fn output_of_python_is_read() {
    for (name, body) in PYTHON {
        assert_eq!(received(&every(), encoded(name, body)).unwrap().payload(), Some(lines().as_bytes()), "{name}");
    }
}

/// Rules: H-103.
/// Attacks: 28.
#[test]
fn members_and_frames_follow_each_other_within_the_limits() {
    let twice = lines().repeat(2);
    let skipped = b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc";
    for (name, body) in [
        ("gzip", [GZIP, GZIP].concat()),
        ("zstd", [ZSTD, ZSTD_STREAMED].concat()),
        ("zstd", [ZSTD_STREAMED, skipped, ZSTD].concat()),
    ] {
        let seen = received(&every().max_bytes(twice.len()), encoded(name, body.clone())).unwrap();
        assert_eq!(seen.payload(), Some(twice.as_bytes()), "{name}");
        let (reason, code) = refused(&every().max_bytes(twice.len() - 1), encoded(name, body.clone()));
        assert_eq!((reason, code.as_str()), (DeadLetterReason::LimitExceeded, "Size"), "{name}");
        let (_, code) = refused(&every().max_ratio(twice.len() / body.len()), encoded(name, body.clone()));
        assert_eq!(code, "Ratio", "{name}");
    }
    // Each one that is cut after the first.
    for (name, first, second) in [
        ("gzip", GZIP, GZIP),
        ("zstd", ZSTD, ZSTD_STREAMED),
        ("zstd", ZSTD_STREAMED, skipped),
        ("zstd", skipped, ZSTD_STREAMED),
    ] {
        for length in 1..second.len() {
            let (_, code) = refused(&every(), encoded(name, [first, &second[..length]].concat()));
            assert_eq!(code, "Truncated", "{name} {length}");
        }
    }
    assert_eq!(received(&every(), encoded("zstd", &skipped[..])).unwrap().payload(), Some(&b""[..]));
    let endless = b"\x50\x2a\x4d\x18\xff\xff\xff\xff".to_vec();
    assert_eq!(refused(&every(), encoded("zstd", endless)).1, "Truncated");
    // A match may not look back into the member before.
    let back = [GZIP, b"\x1f\x8b\x08\0\0\0\0\0\0\xff\x03\x02\0", &[0; 8]].concat();
    assert!(received(&every(), encoded("gzip", back)).is_err());
}

/// Rules: H-103.
#[test]
fn many_empty_members_and_frames_are_one_empty_body() {
    let mut member = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::flush(&mut member).unwrap();
    let member = member.finish().unwrap();
    let frame = b"\x28\xb5\x2f\xfd\x20\x00\x01\x00\x00";
    for (name, body) in [("gzip", member.repeat(5_000)), ("zstd", frame.repeat(10_000))] {
        assert_eq!(received(&every(), encoded(name, body)).unwrap().payload(), Some(&b""[..]), "{name}");
    }
}

/// Less alike than [`lines`].
fn orders(count: u64) -> String {
    let order = |n: u64| {
        let (a, b, c) = (n * 7_919 % 1_000, n * 104_729 % 5_000, n * 31 % 997);
        format!("{{\"id\":{n},\"sku\":\"sku-{a}\",\"customer\":\"customer {b}\",\"price\":{c}.{}}}\n", n % 100)
    };
    (0..count).map(order).collect()
}

/// Rules: H-104.
#[test]
fn a_frame_of_zstd_carries_its_content_size() {
    for count in [20, 60, 4_000] {
        let body = orders(count);
        let sent = sent(&CompressLayer::new(Encoding::Zstd), Message::new(body.clone()));
        let frame = sent.payload().unwrap();
        let (&[_, _, _, _, descriptor], rest) = frame.split_first_chunk().unwrap();
        let is_single = descriptor & 1 << 5 != 0;
        let field = &rest[usize::from(!is_single)..];
        let size = match descriptor >> 6 {
            0 if is_single => usize::from(field[0]),
            1 => usize::from(u16::from_le_bytes([field[0], field[1]])) + 256,
            2 => u32::from_le_bytes([field[0], field[1], field[2], field[3]]) as usize,
            flag => panic!("{flag}"),
        };
        assert_eq!(size, body.len());
        assert!(descriptor & 1 << 2 != 0, "a checksum");
    }
}

/// Rules: H-105.
#[test]
fn levels_are_clamped_and_higher_ones_are_smaller() {
    let text = include_str!("../../docs/semantics.md");
    let size = |layer: CompressLayer| sent(&layer, Message::new(text)).body().size();
    for (encoding, highest) in [(Encoding::Gzip, 9), (Encoding::Zstd, 19), (Encoding::Deflate, 9)] {
        let at = |level| size(CompressLayer::new(encoding).level(level));
        assert!(at(6) < at(1), "{encoding:?}: {} {}", at(6), at(1));
        assert_eq!((at(0), at(u32::MAX)), (at(1), at(highest)), "{encoding:?}");
        let sent = sent(&CompressLayer::new(encoding).level(u32::MAX), Message::new(text));
        assert_eq!(received(&every().max_bytes(1 << 20), sent).unwrap().payload(), Some(text.as_bytes()));
    }
    let (gzip, zstd) = (size(CompressLayer::new(Encoding::Gzip)), size(CompressLayer::new(Encoding::Zstd)));
    assert!(zstd < gzip, "{zstd} {gzip}");
}

/// Rules: H-101.
#[test]
fn a_refusal_names_what_is_missing() {
    let says = |layer: &DecompressLayer, name: &str| {
        received(layer, encoded(name, GZIP)).expect_err("a dead letter").description.into_owned()
    };
    let only_zstd = DecompressLayer::new([Encoding::Zstd]);
    let expected = "content encoding `gzip`: not read by this layer: name it in `DecompressLayer::new`";
    assert_eq!(says(&only_zstd, "gzip"), expected);
    assert_eq!(says(&every(), "br"), "content encoding `br`: not supported: `gzip`, `zstd` and `deflate` are");
    let without = |name: &str| encoded(name, GZIP).decode::<u32, _>(&consign::codecs::Codecs::json()).unwrap_err();
    let expected = "the content encoding `deflate` needs a `DecompressLayer` (feature `deflate` of consign)";
    assert_eq!(without("deflate").to_string(), expected);
    assert_eq!(without("br").to_string(), "the content encoding `br` is not supported");
    assert_eq!(without("br, utf-8").to_string(), "the content encoding `br` is not supported");
    assert_eq!(without("br, gzip").to_string(), "the content encoding `br, gzip` is not supported");
    // Spring AMQP writes the charset behind the encoding, before 2.3 with a colon.
    for list in ["deflate, UTF-8", "deflate:UTF-8"] {
        assert_eq!(without(list).to_string(), expected);
    }
}

/// Rules: H-100.
#[test]
fn encodings_that_do_not_change_bytes_are_read_without_a_layer() {
    for name in ["utf-8", "UTF-8", "binary", "us-ascii", "iso-8859-1", "8bit", "identity, utf-8"] {
        let message = encoded(name, "7");
        assert_eq!(message.decode::<u8, _>(&consign::codecs::Codecs::json()).unwrap(), 7, "{name}");
        let seen = received(&every(), message).unwrap();
        assert_eq!((seen.payload(), encoding_of(&seen)), (Some(&b"7"[..]), Some(name)));
    }
}

/// An extra field, a name, a comment, and a checksum of all that.
fn gzip_with_every_field() -> (Vec<u8>, usize) {
    use std::io::Write;
    let builder = flate2::GzBuilder::new().extra(*b"AB\x01\0x").filename("lines").comment("of an order");
    let mut encoder = builder.write(Vec::new(), flate2::Compression::best());
    encoder.write_all(lines().as_bytes()).unwrap();
    let mut body = encoder.finish().unwrap();
    let end = 10 + 2 + 5 + "lines\0".len() + "of an order\0".len();
    body[3] |= 1 << 1;
    let mut crc = flate2::Crc::new();
    crc.update(&body[..end]);
    let [low, high, ..] = crc.sum().to_le_bytes();
    body.splice(end..end, [low, high]);
    (body, end + 2)
}

/// Rules: H-07.
#[test]
fn a_header_of_gzip_may_have_every_field() {
    let (body, header) = gzip_with_every_field();
    let seen = received(&every(), encoded("gzip", body.clone())).unwrap();
    assert_eq!(seen.payload(), Some(lines().as_bytes()));
    for length in 0..body.len() {
        assert_eq!(refused(&every(), encoded("gzip", body[..length].to_vec())).1, "Truncated", "{length}");
    }
    for at in 0..header {
        let mut changed = body.clone();
        changed[at] ^= 1;
        let refused = received(&every(), encoded("gzip", changed)).is_err();
        assert!(refused, "{at}: the header has a checksum");
    }
    // Bits that nobody has given a meaning to.
    for bit in 5..8 {
        let mut reserved = GZIP.to_vec();
        reserved[3] |= 1 << bit;
        assert_eq!(refused(&every(), encoded("gzip", reserved)).1, "Syntax", "{bit}");
    }
    // The checksum of the body, and its size.
    for from_end in 1..=8 {
        let mut changed = GZIP.to_vec();
        let at = changed.len() - from_end;
        changed[at] ^= 1;
        assert_eq!(refused(&every(), encoded("gzip", changed)).1, "Syntax", "{from_end}");
    }
}

/// Rules: H-07.
#[test]
fn a_changed_byte_is_never_another_body() {
    for (name, body) in [("gzip", GZIP), ("zstd", ZSTD), ("zstd", ZSTD_STREAMED), ("deflate", ZLIB)] {
        let mut accepted = 0;
        for at in 0..body.len() {
            for bit in 0..8 {
                let mut changed = body.to_vec();
                changed[at] ^= 1 << bit;
                if let Ok(seen) = received(&every(), encoded(name, changed)) {
                    assert_eq!(seen.payload(), Some(lines().as_bytes()), "{name} {at}");
                    accepted += 1;
                }
            }
        }
        // What the header says of a file, of the time and of the window.
        assert!(accepted < 120, "{name}: {accepted}");
    }
}

/// Rules: H-07.
#[test]
fn random_bytes_panic_no_decoder() {
    let bodies = (0..3_usize, vec((any::<prop::sample::Index>(), any::<u8>()), 1..6), vec(any::<u8>(), 0..64));
    let result = runner(2_000).run(&bodies, |(which, changes, noise)| {
        let (name, valid) = [("gzip", GZIP), ("zstd", ZSTD), ("deflate", ZLIB)][which];
        let mut changed = valid.to_vec();
        for (at, byte) in &changes {
            let at = at.index(changed.len());
            changed[at] = *byte;
        }
        for body in [changed, [&valid[..if which == 0 { 10 } else { 4 }], &noise].concat(), noise] {
            let _ = received(&every(), encoded(name, body));
        }
        Ok(())
    });
    explain(result, "random_bytes_panic_no_decoder");
}

/// Rules: H-08.
#[tokio::test(start_paused = true)]
async fn a_dead_letter_keeps_the_encoded_body() {
    use consign::{
        administration::QueueSettings, broker::Broker, consumer::Consumer, message::SequenceNumber, transport::Sender,
    };

    let queue = Broker::new().create_queue("orders", QueueSettings::default()).unwrap();
    let broken = encoded("gzip", &GZIP[..100]);
    queue.sender().unwrap().send(broken.clone()).await.unwrap();
    let never = service_fn(|_: Message| async { Err::<Disposition, BoxError>("a handler saw it".into()) });
    let consumer = Consumer::new(queue.receiver(), every().layer(never));
    let stats = consumer.run_until(tokio::time::sleep(Duration::from_millis(50))).await.unwrap();
    assert_eq!(stats.dead_lettered(), 1);
    let dead = queue.dead_letter().peek(SequenceNumber::default(), 1).remove(0);
    assert_eq!((dead.body(), encoding_of(&dead)), (broken.body(), Some("gzip")));
    assert_eq!(dead.dead_letter_reason(), Some("DeserializationFailed"));
}

/// Rules: H-09.
/// Attacks: 29.
#[test]
fn without_the_layer_a_codec_sees_no_encoded_body() {
    let error = encoded("gzip", GZIP).decode::<u32, _>(&consign::codecs::Codecs::json()).unwrap_err();
    assert_eq!(error.reason(), DeadLetterReason::UnsupportedEncoding);
}

#[tokio::test(start_paused = true)]
async fn the_layer_adds_no_wait_and_returns_errors() {
    let (refused, taken) = (encoded("gzip", "plain"), encoded("gzip", GZIP));
    no_time_of_its_own(&every(), refused, taken, &CompressLayer::new(Encoding::Gzip), Message::new(lines())).await;
}
