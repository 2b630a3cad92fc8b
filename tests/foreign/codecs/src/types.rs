//! The types that bodies are read into, by the names that `values.json` has for them.

use std::collections::{BTreeMap, BTreeSet};

use consign::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;
use uuid::Uuid;

use crate::check::{Checks, checks};

/// Every type of `values.json`: its name, and what can be done with it.
pub(crate) const TYPES: &[(&str, Checks)] = &[
    ("u8", checks::<u8>()),
    ("u16", checks::<u16>()),
    ("u32", checks::<u32>()),
    ("u64", checks::<u64>()),
    ("u128", checks::<u128>()),
    ("i8", checks::<i8>()),
    ("i16", checks::<i16>()),
    ("i32", checks::<i32>()),
    ("i64", checks::<i64>()),
    ("i128", checks::<i128>()),
    ("f32", checks::<f32>()),
    ("f64", checks::<f64>()),
    ("bool", checks::<bool>()),
    ("char", checks::<char>()),
    ("String", checks::<String>()),
    ("Bytes", checks::<ByteBuf>()),
    ("()", checks::<()>()),
    ("Option<u32>", checks::<Option<u32>>()),
    ("Vec<u8>", checks::<Vec<u8>>()),
    ("Vec<u16>", checks::<Vec<u16>>()),
    ("Vec<u32>", checks::<Vec<u32>>()),
    ("Vec<f64>", checks::<Vec<f64>>()),
    ("Vec<Vec<u32>>", checks::<Vec<Vec<u32>>>()),
    ("Vec<Option<u32>>", checks::<Vec<Option<u32>>>()),
    ("[u16; 3]", checks::<[u16; 3]>()),
    ("(u8, String, bool)", checks::<(u8, String, bool)>()),
    ("BTreeMap<String, i64>", checks::<BTreeMap<String, i64>>()),
    ("BTreeMap<i64, String>", checks::<BTreeMap<i64, String>>()),
    ("BTreeSet<u32>", checks::<BTreeSet<u32>>()),
    ("Uuid", checks::<Uuid>()),
    ("Timestamp", checks::<Timestamp>()),
    ("Span", checks::<Span>()),
    ("Id", checks::<Id>()),
    ("Marker", checks::<Marker>()),
    ("Point", checks::<Point>()),
    ("Settings", checks::<Settings>()),
    ("Counters", checks::<Counters>()),
    ("Envelope", checks::<Envelope>()),
    ("Shape", checks::<Shape>()),
    ("Vec<Shape>", checks::<Vec<Shape>>()),
    ("Command", checks::<Command>()),
    ("Action", checks::<Action>()),
    ("Either", checks::<Either>()),
    ("Stamped", checks::<Stamped>()),
    ("Dated", checks::<Dated>()),
    ("Order", checks::<Order>()),
    ("Invoice", checks::<Invoice>()),
    ("Reading", checks::<Reading>()),
    ("Tree", checks::<Tree>()),
];

#[derive(Debug, Serialize, Deserialize)]
struct Span(u8, i8);

#[derive(Debug, Serialize, Deserialize)]
struct Id(u64);

#[derive(Debug, Serialize, Deserialize)]
struct Marker;

#[derive(Debug, Serialize, Deserialize)]
struct Point {
    x: f64,
    y: f64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Settings {
    name: String,
    #[serde(default = "three")]
    retries: u8,
    note: Option<String>,
}

fn three() -> u8 {
    3
}

#[derive(Debug, Serialize, Deserialize)]
struct Counters {
    sent: u8,
    failed: u32,
    offset: i64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Envelope {
    version: u32,
    #[serde(flatten)]
    content: Content,
}

#[derive(Debug, Serialize, Deserialize)]
struct Content {
    kind: String,
    total: f64,
    by: String,
}

#[derive(Debug, Serialize, Deserialize)]
enum Shape {
    Empty,
    Circle(f64),
    Rectangle(u8, u8),
    Polygon { sides: u32, name: String },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "type")]
enum Command {
    Move { x: i32, y: f64 },
    Stop,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "t", content = "c")]
enum Action {
    Add(u32, u32),
    Clear,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Either {
    // Of the numbers of JavaScript no decoder can say whether one was an integer.
    Number(f64),
    Text(String),
}

/// The time as JavaScript's `Date.now()` has it.
#[derive(Debug, Serialize, Deserialize)]
struct Stamped {
    name: String,
    at: i64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Dated {
    name: String,
    at: Timestamp,
    until: Option<Timestamp>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Order {
    id: u64,
    customer: String,
    lines: Vec<Line>,
    ship_to: Address,
    paid: bool,
    note: Option<String>,
    total: f64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Line {
    sku: String,
    quantity: u32,
    price: f64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Address {
    street: String,
    city: String,
    postcode: String,
    country: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct Invoice {
    number: String,
    issued_at: i64,
    amounts: BTreeMap<String, f64>,
    status: Status,
    tags: BTreeSet<String>,
    scan: ByteBuf,
    history: Vec<Status>,
    reference: Option<Uuid>,
}

#[derive(Debug, Serialize, Deserialize)]
enum Status {
    Draft,
    Sent,
    Paid { by: String, at: u64 },
}

#[derive(Debug, Serialize, Deserialize)]
struct Reading {
    device: u64,
    channel: i16,
    samples: Vec<f64>,
    labels: BTreeMap<String, String>,
    ok: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct Tree {
    name: String,
    children: Vec<Tree>,
}
