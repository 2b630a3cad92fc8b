use std::env;

use bytes::Bytes;
use consign_amqp::{
    codec::{self, Decoder, Limits},
    frame::{Frame, FrameHeader},
    message::EncodedMessage,
    types::{Performative, SaslFrame},
    value::Value,
};
use fastrand::Rng;

use crate::{generate::value, hex, to_hex};

/// Runs the cases; a failure prints the command that repeats them.
pub(crate) fn for_each_case(test: &str, cases: u32, mut case: impl FnMut(&mut Rng)) {
    let number = |name, otherwise| env::var(name).map_or(otherwise, |text| text.parse().expect("a number"));
    let (seed, cases) = (number("SEED", 7), number("CONSIGN_CASES", u64::from(cases)));
    let mut rng = Rng::with_seed(seed);
    for index in 0..cases {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| case(&mut rng)));
        if let Err(panic) = outcome {
            eprintln!("case {index}; repeat: SEED={seed} CONSIGN_CASES={cases} cargo test -p consign-amqp {test}");
            std::panic::resume_unwind(panic);
        }
    }
}

/// Rules: A-45.
/// Attacks: 22.
#[test]
fn random_values_round_trip_and_cut_random_bytes_are_refused() {
    for_each_case("random_values_round_trip_and_cut_random_bytes_are_refused", 100_000, |rng| {
        let value = value(rng, 4);
        let encoding = codec::encode(&value).unwrap();
        assert_eq!(codec::decode::<Value>(&encoding).as_ref(), Ok(&value), "{}", to_hex(&encoding));
        let mut decoder = Decoder::new(&encoding);
        assert_eq!(decoder.skip(), Ok(()), "{}", to_hex(&encoding));
        assert!(decoder.is_empty());
        // A value that is cut off is refused, wherever.
        let cut = encoding.slice(..rng.usize(..encoding.len()));
        assert!(codec::decode::<Value>(&cut).is_err(), "{}", to_hex(&cut));
    });
}

/// What is decoded is encoded as the same value; whatever the bytes are, nothing panics.
fn read_all(bytes: &Bytes) {
    if let Ok(value) = codec::decode::<Value>(bytes) {
        let encoding = codec::encode(&value).unwrap();
        let again = codec::decode::<Value>(&encoding).expect("what was encoded is decoded");
        assert_eq!(to_hex(&codec::encode(&again).unwrap()), to_hex(&encoding));
    }
    let mut decoder = Decoder::new(bytes);
    while decoder.skip().is_ok() && !decoder.is_empty() {}
    let performative = codec::decode::<Performative>(bytes);
    if let Ok(performative) = performative {
        let encoding = codec::encode(&performative).unwrap();
        let again = codec::decode::<Performative>(&encoding).expect("what was encoded is decoded");
        assert_eq!(to_hex(&codec::encode(&again).unwrap()), to_hex(&encoding));
    }
    drop(codec::decode::<SaslFrame>(bytes));
    if let Ok(Some(header)) = FrameHeader::decode(bytes, 65_536) {
        drop(Frame::decode(header, bytes, Limits::default()));
        drop(SaslFrame::decode_frame(header, bytes, Limits::default()));
    }
    if let Ok(message) = EncodedMessage::split(bytes.clone()) {
        drop((message.header(), message.delivery_annotations(), message.message_annotations()));
        drop((message.properties(), message.application_properties(), message.footer()));
        message.data().for_each(drop);
        message.sequences().for_each(drop);
        drop(message.value());
    }
}

/// Format codes that exist, more often than others.
const CODES: &[u8] =
    b"\x00\x40\x41\x42\x43\x44\x45\x50\x51\x52\x53\x54\x55\x56\x60\x61\x70\x71\x72\x73\x74\x80\x81\x82\
    \x83\x84\x94\x98\xa0\xa1\xa3\xb0\xb1\xb3\xc0\xc1\xd0\xd1\xe0\xf0";

#[test]
fn random_bytes_do_not_panic() {
    for_each_case("random_bytes_do_not_panic", 100_000, |rng| {
        let byte = |rng: &mut Rng| match rng.u8(0..4) {
            0 => rng.u8(..),
            1 => rng.u8(..8),
            _ => CODES[rng.usize(..CODES.len())],
        };
        let bytes: Bytes = (0..rng.usize(0..48)).map(|_| byte(rng)).collect();
        read_all(&bytes);
        // As the fields of a performative, and as a section of a message.
        let composite = [0, 0x53, rng.u8(0x10..0x19)];
        read_all(&[composite.as_slice(), &bytes].concat().into());
        let section = [0, 0x53, rng.u8(0x70..0x79)];
        read_all(&[section.as_slice(), &bytes].concat().into());
    });
}

/// Attacks: 90.
#[test]
fn flipped_random_bytes_of_real_frames_and_messages_do_not_panic() {
    let vectors = concat!(include_str!("../vectors/rhea.txt"), include_str!("../vectors/proton.txt"));
    let vectors: Vec<Bytes> = vectors
        .lines()
        .filter(|line| line.starts_with("frame-") || line.starts_with("message-"))
        .filter_map(|line| line.split_once(' '))
        .map(|(_, encoding)| hex(encoding))
        .collect();
    for_each_case("flipped_random_bytes", 50_000, |rng| {
        let mut bytes = vectors[rng.usize(..vectors.len())].to_vec();
        for _ in 0..rng.usize(1..4) {
            let index = rng.usize(..bytes.len());
            bytes[index] ^= 1 << rng.u8(0..8);
        }
        bytes.truncate(rng.usize(..=bytes.len()));
        let body = bytes.get(8..).map(Bytes::copy_from_slice);
        read_all(&bytes.into());
        body.iter().for_each(read_all);
    });
}
