//! Builds the seeds of the targets of AMQP from what Qpid Proton and rhea have written, and the others from texts.

mod texts;

use consign_amqp::{
    codec,
    message::{
        Annotations, ApplicationProperties, Data, EncodedMessage, Footer, Header, MessageAnnotations, MessageId,
        Properties,
    },
    value::{Described, Symbol, Timestamp, Uuid, Value},
};

const VECTORS: [&str; 2] = [
    include_str!("../../../../amqp/tests/vectors/rhea.txt"),
    include_str!("../../../../amqp/tests/vectors/proton.txt"),
];

const VALUES: [&str; 16] = [
    "list-mixed",
    "list-nested",
    "map-strings",
    "map-keys",
    "array-uint-small",
    "array-long",
    "array-string-long",
    "array-list",
    "array-map",
    "array-array",
    "array-described",
    "described-described",
    "list-of-described",
    "double-subnormal",
    "frame-attach",
    "frame-transfer",
];
const BODIES: [&str; 6] = ["map-strings", "list-mixed", "array-int", "described-ulong", "list-decimal64", "map-keys"];
const FRAMES: [&str; 8] = [
    "frame-open",
    "frame-begin",
    "frame-attach",
    "frame-flow",
    "frame-transfer",
    "frame-disposition",
    "frame-detach",
    "frame-end",
];

/// The encoding of a vector by the first encoder that has written it.
fn vector(id: &str) -> Vec<u8> {
    let mut lines = VECTORS.iter().flat_map(|text| text.lines()).filter_map(|line| line.split_once(' '));
    let is_written = |digits: &str| digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let (_, digits) =
        lines.find(|(other, digits)| *other == id && is_written(digits)).unwrap_or_else(|| panic!("no vector is {id}"));
    bytes(digits)
}

/// Bytes from hexadecimal digits.
fn bytes(digits: &str) -> Vec<u8> {
    let digits = digits.as_bytes();
    digits.chunks(2).map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// The seeds of a target by the names of their files.
pub(crate) fn seeds(target: &str) -> Vec<(String, Vec<u8>)> {
    match target {
        "codec" => VALUES.iter().map(|id| ((*id).to_owned(), vector(id))).collect(),
        "message" => messages(),
        "engine" => scripts(),
        _ => texts::seeds(target),
    }
}

fn messages() -> Vec<(String, Vec<u8>)> {
    let mut seeds = Vec::new();
    let of_vectors = ["message-data", "message-two-data", "message-sequence", "message-value"];
    for (mode, id) in (0..).zip(of_vectors) {
        seeds.push((id.to_owned(), [&[mode], vector(id).as_slice()].concat()));
    }
    for id in BODIES {
        // A value section.
        seeds.push((format!("value-{id}"), [&[0, 0x00, 0x53, 0x77], vector(id).as_slice()].concat()));
    }
    // Descriptors that a message reserves, and a second footer.
    let decimal = Described {
        descriptor: Symbol::from_static("consign:decimal32").into(),
        value: Value::Binary(vec![7; 4].into()),
    };
    seeds.push(("reserved".to_owned(), [&[0, 0x00, 0x53, 0x77], codec::encode(&decimal).unwrap().as_ref()].concat()));
    let footers = ["005378c10100", "005375a000", "005378c10100"].map(bytes).concat();
    seeds.push(("two-footers".to_owned(), [&[0], footers.as_slice()].concat()));
    let received = received();
    for (mode, name) in ["sent", "delivered", "peeked"].into_iter().enumerate() {
        seeds.push((name.to_owned(), [&[u8::try_from(mode).unwrap()], received.as_slice()].concat()));
    }
    let mut batch = vec![0x80];
    for message in [received, vector("message-data"), vector("message-value")] {
        let message = EncodedMessage::split(message.into()).unwrap();
        codec::encode_into(&Data(message.bytes().clone().into()), &mut batch).unwrap();
    }
    seeds.push(("batch".to_owned(), batch));
    seeds
}

/// A message with every annotation of a broker.
fn received() -> Vec<u8> {
    let mut annotations = Annotations::default();
    let mut push = |name: &str, value: Value| annotations.push(Symbol::try_from(name).unwrap(), value);
    push("x-opt-sequence-number", 7_i64.into());
    push("x-opt-enqueued-time", Timestamp(1_763_925_600_000).into());
    push("x-opt-locked-until", Timestamp(1_763_925_660_000).into());
    push("x-opt-message-state", 1_i32.into());
    push("x-opt-partition-id", 3_i16.into());
    push("x-opt-partition-key", "tenant-7".into());
    let footer = Annotations(annotations.0.clone());
    let mut properties = ApplicationProperties::default();
    properties.push("count", 3_u32);
    properties.push("id", Uuid([7; 16]));
    let mut out = Vec::new();
    codec::encode_into(&Header { ttl: Some(60_000), ..Header::default() }, &mut out).unwrap();
    codec::encode_into(&MessageAnnotations(annotations), &mut out).unwrap();
    let fields = Properties {
        message_id: Some(MessageId::Uuid(Uuid([1; 16]))),
        group_id: Some("tenant-7".into()),
        absolute_expiry_time: Some(Timestamp(1_763_925_700_000)),
        ..Properties::default()
    };
    codec::encode_into(&fields, &mut out).unwrap();
    codec::encode_into(&properties, &mut out).unwrap();
    codec::encode_into(&Data(b"{}".to_vec().into()), &mut out).unwrap();
    codec::encode_into(&Footer(footer), &mut out).unwrap();
    out
}

fn scripts() -> Vec<(String, Vec<u8>)> {
    let mut seeds = Vec::new();
    for (mode, name) in [(0, "server"), (1, "client"), (32, "server-answers"), (34, "server-sasl")] {
        // The options, then pieces of input, each of which is delivered at once.
        let mut script = vec![mode, 15, 255, 255, 31];
        let mut piece = |bytes: &[u8]| {
            script.extend_from_slice(&[0, u8::try_from(bytes.len()).unwrap()]);
            script.extend_from_slice(bytes);
            script.push(0);
        };
        if mode & 2 != 0 {
            piece(b"AMQP\x03\x01\0\0");
            piece(&vector("frame-sasl-init"));
        }
        piece(b"AMQP\0\x01\0\0");
        for id in FRAMES {
            piece(&vector(id));
        }
        seeds.push((name.to_owned(), script));
    }
    // Both bits of an open connection and of an application that answers, then any commands.
    for (number, mode) in (1..).zip([8, 9, 40, 44, 41, 10]) {
        seeds.push((format!("commands-{number}"), random(mode, number)));
    }
    for number in 1..=6 {
        seeds.push((format!("pair-{number}"), random(0x80, number)));
    }
    seeds
}

/// Bytes without a pattern, the same on every machine.
fn random(mode: u8, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_be_bytes()[0]
    };
    std::iter::once(mode).chain((0..512).map(|_| next())).collect()
}
