//! The table of refusals in `docs/decoding.md` is what the library prints.

use std::{fmt::Debug, fs};

use consign_codecs::{
    Avro, AvroSchema, Codec, DataContractBinary, DataContractXml, DecodeContext, DecodeError, Limits, Protobuf,
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use crate::support::{CBOR, Fixint, JSON, MSGPACK, POSTCARD, Varint, Which};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/decoding.md");

// The types of the page.
#[derive(Debug, Deserialize)]
#[allow(dead_code)]
struct Order {
    id: u64,
    #[serde(default)]
    lines: Vec<Line>,
    #[serde(default)]
    state: State,
}

#[derive(Debug, Deserialize)]
#[allow(dead_code)]
struct Line {
    sku: String,
    price: f64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(dead_code)]
enum State {
    #[default]
    Open,
    Closed {
        by: String,
    },
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(dead_code)]
struct Strict {
    id: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Message {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(message, repeated, tag = "2")]
    lines: Vec<MessageLine>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct MessageLine {
    #[prost(string, tag = "1")]
    sku: String,
}

fn read<T: DeserializeOwned + Debug>(format: &str, body: &[u8]) -> Result<String, DecodeError> {
    let limits = Limits::default();
    let cx = DecodeContext::new(&limits);
    match format {
        "datacontract-binary" => {
            return DataContractBinary::default().decode::<T>(body, &cx).map(|value| format!("{value:?}"));
        }
        "avro" => {
            let avro = Avro::new(AvroSchema::parse("\"long\"").unwrap());
            return avro.decode::<T>(body, &cx).map(|value| format!("{value:?}"));
        }
        "datacontract-xml" => {
            return DataContractXml::default().decode::<T>(body, &cx).map(|value| format!("{value:?}"));
        }
        _ => {}
    }
    let codec = match format {
        "json" => JSON,
        "json strict" => Which::Strict,
        "msgpack" => MSGPACK,
        "cbor" => CBOR,
        "bincode" => Fixint,
        "bincode varint" => Varint,
        "postcard" => POSTCARD,
        "text" => Which::Text,
        "raw" => Which::Raw,
        other => panic!("a format that the test does not have: {other}"),
    };
    codec.decode::<T>(body).map(|value| format!("{value:?}"))
}

/// What the library says of this body, by the names of the page.
fn refusal(format: &str, body: &[u8], of: &str) -> String {
    let result = match (format, of) {
        ("protobuf", "Message") => {
            Protobuf::<Message>::read(body, &DecodeContext::new(&Limits::default())).map(|read| format!("{read:?}"))
        }
        (_, "Order") => read::<Order>(format, body),
        (_, "Strict") => read::<Strict>(format, body),
        (_, "Value") => read::<Value>(format, body),
        (_, "u8") => read::<u8>(format, body),
        (_, "u64") => read::<u64>(format, body),
        (_, "f64") => read::<f64>(format, body),
        (_, "bool") => read::<bool>(format, body),
        (_, "char") => read::<char>(format, body),
        (_, "State") => read::<State>(format, body),
        (_, "Vec<f64>") => read::<Vec<f64>>(format, body),
        (_, "String") => read::<String>(format, body),
        (_, "(u8, u8)") => read::<(u8, u8)>(format, body),
        (_, "(u64, Vec<u8>)") => read::<(u64, Vec<u8>)>(format, body),
        (_, "Vec<u8>") => read::<Vec<u8>>(format, body),
        (_, "Vec<()>") => read::<Vec<()>>(format, body),
        (_, "IpAddr") => read::<std::net::IpAddr>(format, body),
        (_, "HashMap<u32, u8>") => read::<std::collections::HashMap<u32, u8>>(format, body),
        (_, other) => panic!("a type that the test does not have: {other}"),
    };
    match result {
        Ok(value) => format!("read as {value}"),
        Err(error) => error.to_string(),
    }
}

/// Text in `'` quotes, or bytes in hexadecimal digits, each perhaps so many times.
fn body(cell: &str) -> Vec<u8> {
    let (cell, times) = match cell.rsplit_once(" x ") {
        Some((cell, times)) => (cell, times.parse().unwrap()),
        None => (cell, 1),
    };
    let code = cell.trim().trim_matches('`');
    let once = if let Some(text) = code.strip_prefix('\'').and_then(|code| code.strip_suffix('\'')) {
        text.as_bytes().to_vec()
    } else {
        let digits: Vec<_> = code.chars().filter(|digit| !digit.is_whitespace()).collect();
        let byte = |pair: &[char]| u8::from_str_radix(&pair.iter().collect::<String>(), 16).unwrap();
        digits.chunks(2).map(byte).collect()
    };
    once.repeat(times)
}

/// Rules: P-125.
#[test]
fn the_table_of_refusals_is_what_is_printed() {
    let page = fs::read_to_string(PAGE).unwrap();
    let (_, table) = page.split_once("| format | body | type | text | reason |").unwrap();
    let mut wrong = Vec::new();
    let mut rows = 0;
    for line in table.lines().skip(2).take_while(|line| line.starts_with('|')) {
        let cells: Vec<_> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [format, shown, of, text, reason] = cells[..] else { panic!("not five cells: {line}") };
        assert!(!reason.is_empty(), "a row without a reason: {line}");
        let printed = refusal(format, &body(shown), of.trim_matches('`'));
        if printed != text {
            wrong.push(format!("| {format} | {shown} | {of} | {printed} | {reason} |"));
        }
        rows += 1;
    }
    assert!(rows > 30, "{rows} rows");
    assert!(wrong.is_empty(), "rows as they should be:\n{}", wrong.join("\n"));
}
