//! A few bytes that want to be many are refused before there are many.

use std::io::Write;

use consign::{
    Disposition, Message,
    cloud_events::CloudEvent,
    codecs::Codecs,
    middleware::{
        content_encoding::{DecompressLayer, Encoding},
        interop::MassTransitLayer,
    },
    routing::Router,
    settlement::DeadLetterReason,
};
use tower::{BoxError, Layer, Service, service_fn};

use super::{allocated_bytes, poll_once};

/// Rules: H-63, H-85.
/// As many members as 4 MiB have.
#[test]
fn members_beyond_the_limit_of_properties_are_not_kept() {
    let members = r#""":0,"#.repeat((4 << 20) / 5);
    let event = format!(r#"{{{members}"specversion":"1.0"}}"#);
    let headers = format!(r#"{{"messageType":["a"],"message":0,"headers":{{{members}"a":0}}}}"#);
    let types = format!(r#"{{"messageType":[{}"a"],"message":0}}"#, r#""","#.repeat((4 << 20) / 3));
    // The text of the types is as long as their number, and grows by doubling.
    for (content_type, body, most) in [
        ("application/cloudevents+json", event, 256 << 10),
        ("application/vnd.masstransit+json", headers, 512 << 10),
        ("application/vnd.masstransit+json", types, 16 << 20),
    ] {
        let message = Message::builder().content_type(content_type).build(body).expect("a message");
        let router = Router::new(Codecs::json()).fallback(async |_: CloudEvent| {}).build().expect("a router");
        let mut stack = MassTransitLayer::new().layer(router);
        let mut answer = None;
        let bytes = allocated_bytes(|| answer = Some(poll_once(stack.call(message))));
        let Some(Ok(Disposition::DeadLetter(_))) = answer else { panic!("a dead letter") };
        assert!(bytes < most, "{content_type}: {bytes} bytes");
    }
}

/// 64 MiB of zeros in 65 kB.
fn gzip_bomb() -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    let zeros = vec![0; 1 << 20];
    (0..64).for_each(|_| encoder.write_all(&zeros).expect("memory"));
    encoder.finish().expect("memory")
}

/// 64 MiB of zeros in 2 kB: blocks of one byte that is repeated. The window is 2 to the power of `log` bytes.
fn zstd_bomb(log: u8) -> Vec<u8> {
    let block = |last: u32| {
        let [a, b, c, _] = ((128 << 10) << 3 | 1 << 1 | last).to_le_bytes();
        [a, b, c, 0]
    };
    let mut bomb = vec![0x28, 0xB5, 0x2F, 0xFD, 0, (log - 10) << 3];
    (0..511).for_each(|_| bomb.extend(block(0)));
    bomb.extend(block(1));
    bomb
}

/// A frame of three bytes that says it has 4 GiB.
fn zstd_declared() -> Vec<u8> {
    [&[0x28, 0xB5, 0x2F, 0xFD, 0b1010_0000][..], &u32::MAX.to_le_bytes(), &[1, 0, 0]].concat()
}

/// Rules: H-05.
/// Attacks: 24, 25, 26.
/// Everything that is asked for counts, given back or not.
#[test]
fn a_bomb_takes_less_than_16_mib() {
    for (name, bomb, max_bytes, most) in [
        ("gzip", gzip_bomb(), 256 << 10, 1 << 20),
        ("zstd", zstd_bomb(23), 256 << 10, 1 << 20),
        ("zstd", zstd_bomb(23).repeat(100), 256 << 10, 1 << 20),
        ("deflate", gzip_bomb()[10..].to_vec(), 256 << 10, 1 << 20),
        ("gzip", gzip_bomb(), 100 << 20, 16 << 20),
        ("zstd", zstd_bomb(23), 100 << 20, 4 << 20),
        ("zstd", zstd_bomb(31), 100 << 20, 1 << 20),
        ("zstd", zstd_declared(), 100 << 20, 64 << 10),
    ] {
        let mut message = Message::new(bomb);
        message.properties_mut().pass_through_mut().content_encoding = Some(name.into());
        let never = service_fn(|_: Message| async { Err::<Disposition, BoxError>("a handler saw it".into()) });
        let layer = DecompressLayer::new([Encoding::Gzip, Encoding::Zstd, Encoding::Deflate]).max_bytes(max_bytes);
        let mut stack = layer.layer(never);
        let mut answer = None;
        let bytes = allocated_bytes(|| answer = Some(poll_once(stack.call(message))));
        let Some(Ok(Disposition::DeadLetter(letter))) = answer else { panic!("a dead letter") };
        assert_eq!(letter.reason, DeadLetterReason::LimitExceeded);
        assert!(bytes < most, "{name} up to {max_bytes}: {bytes} bytes");
    }
}
