//! `foreign-amqp FOLDER [--json]`: random values between the codec of `consign-amqp` and those of Qpid Proton and rhea, both ways,
//! then connections between this library and other clients and brokers.
//!
//! FOLDER is what `scripts/foreign` prints. `SEED` sets the seed, `CONSIGN_CASES` the number of values. The process fails if a
//! value is not the same on the other side, or a step of a connection is not as expected.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)]

mod brokers;
#[path = "../../../../amqp/tests/codec/generate.rs"]
mod generate;
#[path = "../../../../amqp/tests/driver/node.rs"]
mod node;
mod node_clients;
#[path = "../../../../amqp/tests/codec/notation.rs"]
#[allow(dead_code, reason = "the tests read the notation")]
mod notation;
#[path = "../../suite.rs"]
mod suite;

use std::{
    env, error,
    fmt::Write as _,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
};

use bytes::Bytes;
use consign_amqp::{
    codec,
    value::{Value, ValueType},
};
use fastrand::Rng;
use serde_json::{Value as Json, json};

use crate::{node_clients::Environment, suite::Case};

type Failure = Box<dyn error::Error>;

/// A foreign codec, and what it does not have.
struct Peer {
    name: &'static str,
    command: fn(&Path) -> Command,
    has: fn(&Value) -> bool,
}

const PEERS: [Peer; 2] =
    [Peer { name: "proton", command: proton, has: proton_has }, Peer { name: "rhea", command: rhea, has: rhea_has }];

/// The connections between this library and others.
const CASES: &[Case<Environment>] = &[
    Case { name: "the client of Qpid Proton", run: node_clients::proton },
    Case { name: "the client of rhea", run: node_clients::rhea },
    Case { name: "the client of rhea over WebSocket", run: node_clients::rhea_over_web_socket },
    Case { name: "the client of azure-servicebus", run: node_clients::azure },
    Case { name: "the client of fe2o3-amqp", run: node_clients::fe2o3 },
    Case { name: "the client of fe2o3-amqp over TLS", run: node_clients::fe2o3_over_tls },
    Case { name: "the client of fe2o3-amqp over WebSocket", run: node_clients::fe2o3_over_web_socket },
    Case { name: "a stack around the client of fe2o3-amqp", run: node_clients::wrapped_fe2o3 },
    Case { name: "a broker of Qpid Proton: settlements", run: brokers::settlements },
    Case { name: "a broker of Qpid Proton: a message of 1 MiB", run: brokers::large },
    Case { name: "a broker of Qpid Proton: drain and detach", run: brokers::drain_and_detach },
    Case { name: "a broker of Qpid Proton: refusals", run: brokers::refusals },
    Case { name: "a broker of Qpid Proton: idle connections", run: brokers::idle },
    Case { name: "a broker of rhea over WebSocket", run: brokers::web_socket },
];

fn script(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "../../../amqp/tests/vectors", name].iter().collect()
}

fn proton(folder: &Path) -> Command {
    let mut command = Command::new(folder.join("venv/bin/python"));
    command.arg(script("with_proton.py"));
    command
}

fn rhea(folder: &Path) -> Command {
    let mut command = Command::new("node");
    command.env("NODE_MODULES", folder).arg(script("with_rhea.mjs"));
    command
}

/// An array of Proton has one descriptor. Its decoder takes what follows two descriptors for a part of the described value.
fn proton_has(value: &Value) -> bool {
    match value {
        Value::Described(described) => !matches!(described.value, Value::Described(_)),
        Value::Array(array) => array.descriptors().len() <= 1,
        _ => true,
    }
}

/// Rhea keeps one descriptor, its timestamps are those of JavaScript, and it writes no arrays of arrays.
fn rhea_has(value: &Value) -> bool {
    match value {
        Value::Timestamp(at) => at.0.unsigned_abs() <= 8_640_000_000_000_000,
        Value::Described(described) => !matches!(described.value, Value::Described(_)),
        Value::Array(array) => array.descriptors().len() <= 1 && array.element_type() != ValueType::Array,
        _ => true,
    }
}

/// Whether the peer has the value and everything in it.
fn all(has: fn(&Value) -> bool, value: &Value) -> bool {
    let inside = |values: &[Value]| values.iter().all(|value| all(has, value));
    has(value)
        && match value {
            Value::List(list) => inside(&list.0),
            Value::Map(map) => map.0.iter().all(|(key, value)| all(has, key) && all(has, value)),
            Value::Array(array) => inside(array.descriptors()) && inside(array),
            Value::Described(described) => all(has, &described.descriptor) && all(has, &described.value),
            _ => true,
        }
}

/// Values without elements have one encoding of the fewest bytes, which every encoder writes.
fn is_forced(value: &Value) -> bool {
    !matches!(value.value_type(), ValueType::List | ValueType::Map | ValueType::Array | ValueType::Described)
}

/// What a peer makes of one value: nothing, or how it differs.
fn compare(value: &Value, answer: &Json) -> Result<(), Failure> {
    if let Some(error) = answer["error"].as_str() {
        return Err(error.into());
    }
    let ours = codec::encode(value)?;
    let theirs = hex(answer["bytes"].as_str().unwrap_or_default());
    let read: Value = codec::decode(&theirs)?;
    if read != *value {
        return Err(format!("{} is read as {}", to_hex(&theirs), notation::of(&read)).into());
    }
    if is_forced(value) && ours != theirs {
        return Err(format!("{} is written, and not {}", to_hex(&ours), to_hex(&theirs)).into());
    }
    if answer["value"] != notation::of(value) {
        return Err(format!("{} is read there as {}", to_hex(&ours), answer["value"]).into());
    }
    Ok(())
}

/// Exchanges the values; how many there were, and what differs.
fn exchange(peer: &Peer, folder: &Path, values: &[Value]) -> Result<(usize, Vec<String>), Failure> {
    let values: Vec<&Value> = values.iter().filter(|value| all(peer.has, value)).collect();
    let mut input = String::new();
    for value in &values {
        writeln!(input, "{}", json!({ "value": notation::of(value), "bytes": to_hex(&codec::encode(*value)?) }))?;
    }
    let mut process = (peer.command)(folder).arg("exchange").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut stdin = process.stdin.take().ok_or("no standard input")?;
    // While it is written, what the process prints has to be read.
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = process.wait_with_output()?;
    writer.join().map_err(|_| "the writer panicked")??;
    let text = String::from_utf8(output.stdout)?;
    let answers = text.lines().map(serde_json::from_str).collect::<Result<Vec<Json>, _>>()?;
    if answers.len() != values.len() {
        return Err(format!("{} answers for {} values", answers.len(), values.len()).into());
    }
    let compared = values.iter().zip(&answers).map(|(value, answer)| (value, compare(value, answer)));
    let differences =
        compared.filter_map(|(value, outcome)| Some(format!("{}: {}", notation::of(value), outcome.err()?)));
    Ok((values.len(), differences.collect()))
}

fn main() -> ExitCode {
    let mut arguments = env::args().skip(1);
    let Some(folder) = arguments.next() else {
        eprintln!("foreign-amqp FOLDER [--json]");
        return ExitCode::from(2);
    };
    let as_json = arguments.next().as_deref() == Some("--json");
    let number = |name, otherwise: u64| env::var(name).map_or(otherwise, |text| text.parse().expect("a number"));
    let (seed, cases) = (number("SEED", 7), number("CONSIGN_CASES", 20_000));
    let mut rng = Rng::with_seed(seed);
    let values: Vec<Value> = (0..cases).map(|_| generate::value(&mut rng, 3)).collect();
    let mut failed = false;
    let mut report = Vec::new();
    for peer in &PEERS {
        let (exchanged, differences) = exchange(peer, Path::new(&folder), &values)
            .unwrap_or_else(|error| (0, vec![format!("the exchange failed: {error}")]));
        failed |= exchanged == 0 || !differences.is_empty();
        report.push(json!({ "peer": peer.name, "values": exchanged, "differences": differences.len() }));
        if !as_json {
            println!("{}: {exchanged} values both ways, {} not the same", peer.name, differences.len());
        }
        for difference in differences.iter().take(10) {
            eprintln!("{}: {difference}; SEED={seed}", peer.name);
        }
    }
    if as_json {
        println!("{}", Json::from(report));
    }
    match connections(folder.into(), as_json) {
        Ok(ExitCode::SUCCESS) if !failed => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the cases of connections.
fn connections(folder: PathBuf, as_json: bool) -> Result<ExitCode, tower::BoxError> {
    tokio::runtime::Runtime::new()?.block_on(async {
        let env = Environment::new(folder).await?;
        Ok(suite::run_all(CASES, &env, as_json).await)
    })
}

/// Bytes from hexadecimal digits.
fn hex(digits: &str) -> Bytes {
    let pairs = digits.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap_or_default(), 16).expect("digits")).collect()
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut digits, byte| {
        write!(digits, "{byte:02x}").unwrap();
        digits
    })
}
