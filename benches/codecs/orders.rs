//! The bodies.

use serde::{Deserialize, Serialize};

/// 28 bytes of JSON.
#[derive(Clone, PartialEq, Serialize, Deserialize, prost::Message)]
pub(crate) struct Two {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint32, tag = "2")]
    quantity: u32,
}

#[derive(Clone, PartialEq, Serialize, Deserialize, prost::Message)]
pub(crate) struct Order {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(string, tag = "2")]
    customer: String,
    #[prost(string, tag = "3")]
    address: String,
    #[prost(string, tag = "4")]
    note: String,
    #[prost(message, repeated, tag = "5")]
    lines: Vec<Line>,
}

#[derive(Clone, PartialEq, Serialize, Deserialize, prost::Message)]
pub(crate) struct Line {
    #[prost(string, tag = "1")]
    sku: String,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(uint32, tag = "3")]
    quantity: u32,
    #[prost(uint64, tag = "4")]
    cents: u64,
    #[prost(bool, tag = "5")]
    gift: bool,
}

/// The order whose texts are in the body.
#[derive(Deserialize)]
#[allow(dead_code, reason = "read out of a body, and then dropped")]
pub(crate) struct OrderRef<'a> {
    id: u64,
    customer: &'a str,
    address: &'a str,
    note: &'a str,
    #[serde(borrow)]
    lines: Vec<LineRef<'a>>,
}

#[derive(Deserialize)]
#[allow(dead_code, reason = "read out of a body, and then dropped")]
pub(crate) struct LineRef<'a> {
    sku: &'a str,
    name: &'a str,
    quantity: u32,
    cents: u64,
    gift: bool,
}

pub(crate) fn two() -> Two {
    Two { id: 1_000_000, quantity: 37 }
}

pub(crate) fn order() -> Order {
    let line = |number: u32| Line {
        sku: format!("SKU-{:06}", 104_729 * number % 1_000_000),
        name: ["galvanised nail 4x60", "oak board", "wood glue", "hinge, brass"][number as usize % 4].into(),
        quantity: 3 * number + 1,
        cents: 1_299 * u64::from(number) + 49,
        gift: number.is_multiple_of(3),
    };
    Order {
        id: 1_000_000,
        customer: "Ada Lovelace".into(),
        address: "12 St James's Square, London SW1Y 4JH, United Kingdom".into(),
        note: "Leave it with the neighbour at number 14 if nobody opens the door before noon. ".repeat(2),
        lines: (0..8).map(line).collect(),
    }
}
