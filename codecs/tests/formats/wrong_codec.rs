//! What happens to a body that is read by the wrong codec: 10,000 seeded values of five types, written by each format
//! and read by each other. What is not listed is refused, all 10,000 times.

use fastrand::Rng;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::support::{CBOR, Fixint, JSON, MSGPACK, Order, POSTCARD, Varint, Which};

const VALUES: usize = 10_000;
const SEED: u64 = 7;

#[derive(Debug, Deserialize, Serialize)]
struct Tiny {
    id: u32,
    ok: bool,
}

#[derive(Debug, Deserialize, Serialize)]
struct Point {
    x: f64,
    y: f64,
}

#[derive(Debug, Deserialize, Serialize)]
struct Note(String);

#[derive(Debug, Deserialize, Serialize)]
struct Lax {
    #[serde(default)]
    a: u8,
    #[serde(default)]
    b: Option<String>,
}

/// The cells in which a codec accepted another's bytes, one a line: `writer reader accepted`.
fn accepted<T: DeserializeOwned + Serialize>(value: impl Fn(&mut Rng) -> T) -> String {
    const READERS: [Which; 6] = [JSON, MSGPACK, CBOR, Fixint, Varint, POSTCARD];
    let mut rng = Rng::with_seed(SEED);
    let mut cells = [[0_usize; 6]; 7];
    for _ in 0..VALUES {
        let value = value(&mut rng);
        let mut bodies: Vec<_> = READERS.iter().map(|writer| writer.encode(&value).unwrap().to_vec()).collect();
        bodies.push(rmp_serde::to_vec(&value).unwrap());
        for (cells, body) in cells.iter_mut().zip(&bodies) {
            for (cell, reader) in cells.iter_mut().zip(READERS) {
                *cell += usize::from(reader.decode::<T>(body).is_ok());
            }
        }
    }
    let mut lines = Vec::new();
    for (writer, cells) in cells.iter().enumerate() {
        let own = READERS.get(writer).copied().unwrap_or(MSGPACK);
        for (&reader, &count) in READERS.iter().zip(cells) {
            if reader == own {
                assert_eq!(count, VALUES, "{own:?} reads its own bytes");
            } else if count > 0 {
                let form = if writer == READERS.len() { " array" } else { "" };
                lines.push(format!("{own:?}{form} -> {reader:?}: {count}"));
            }
        }
    }
    lines.join("\n")
}

fn lines(cells: &[&str]) -> String {
    cells.join("\n")
}

fn text(rng: &mut Rng, len: std::ops::Range<usize>) -> String {
    let len = rng.usize(len);
    std::iter::repeat_with(|| rng.alphanumeric()).take(len).collect()
}

#[test]
fn an_order_in_a_self_describing_format_is_read_by_no_other_codec() {
    let order = |rng: &mut Rng| Order {
        id: rng.u64(0..1_000_000),
        sku: text(rng, 1..20),
        qty: rng.u32(0..500),
        note: rng.bool().then(|| text(rng, 5..6)),
    };
    // Positional codecs take each other's bytes: nothing in them says which they are.
    let cells = ["Fixint -> Varint: 9", "Fixint -> Postcard: 6", "Varint -> Postcard: 191", "Postcard -> Varint: 26"];
    assert_eq!(accepted(order), lines(&cells));
}

#[test]
fn a_number_and_a_bool_in_a_self_describing_format_are_read_by_no_other_codec() {
    assert_eq!(
        accepted(|rng| Tiny { id: rng.u32(0..300), ok: rng.bool() }),
        lines(&["Varint -> Postcard: 4379", "Postcard -> Varint: 4218"])
    );
}

#[test]
fn two_floats_in_a_positional_format_are_read_by_every_positional_codec() {
    // Sixteen bytes in all three.
    let cells = [
        "Fixint -> Varint: 10000",
        "Fixint -> Postcard: 10000",
        "Varint -> Fixint: 10000",
        "Varint -> Postcard: 10000",
        "Postcard -> Fixint: 10000",
        "Postcard -> Varint: 10000",
    ];
    assert_eq!(accepted(|rng| Point { x: rng.f64(), y: rng.f64() }), lines(&cells));
}

#[test]
fn a_string_in_json_is_read_by_positional_codecs_at_one_length() {
    // A JSON string of 33 characters: its opening quote, 34, is the length of what follows.
    let cells =
        ["Json -> Varint: 254", "Json -> Postcard: 254", "Varint -> Postcard: 10000", "Postcard -> Varint: 10000"];
    assert_eq!(accepted(|rng| Note(text(rng, 1..40))), lines(&cells));
}

#[test]
fn fields_with_defaults_in_a_positional_format_are_read_by_other_codecs() {
    // Two bytes, the second zero, are all defaults where the first is 0x91 (an array of one) in MessagePack, and where it
    // is 0xb8 (a map of a count to come) in CBOR. Longer bodies are where each key of a map is a number, which is no field.
    let cells = [
        "Fixint -> MessagePack: 21",
        "Fixint -> Cbor: 21",
        "Fixint -> Varint: 5065",
        "Fixint -> Postcard: 5065",
        "Varint -> MessagePack: 43",
        "Varint -> Cbor: 17",
        "Varint -> Fixint: 5065",
        "Varint -> Postcard: 10000",
        "Postcard -> MessagePack: 43",
        "Postcard -> Cbor: 17",
        "Postcard -> Fixint: 5065",
        "Postcard -> Varint: 10000",
    ];
    assert_eq!(accepted(|rng| Lax { a: rng.u8(..), b: rng.bool().then(|| text(rng, 6..7)) }), lines(&cells));
}
