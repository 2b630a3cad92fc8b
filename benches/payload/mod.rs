//! What the messages of the benches say, the same for every library.
#![allow(dead_code, reason = "each bench reads what it is about")]

use serde::Deserialize;

/// Two fields, and the name of a kind that a router looks up.
#[derive(Debug, Deserialize)]
pub(crate) struct Order {
    pub(crate) id: u64,
    pub(crate) quantity: u32,
}

pub(crate) const ORDER: &[u8] = br#"{"id":1000000,"quantity":37}"#;

/// An order with a customer, an address and six lines: 1,024 bytes, half of them text. To decode it takes no memory, so
/// what is counted is the library's and not that of a vector.
pub(crate) const LARGE: &[u8] = include_bytes!("order.json");

#[derive(Debug, Deserialize)]
pub(crate) struct Large {
    pub(crate) id: u64,
    pub(crate) status: Status,
    pub(crate) currency: Currency,
    pub(crate) customer: Customer,
    pub(crate) lines: [Line; 6],
    pub(crate) total: f64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Status {
    Placed,
    Confirmed,
    Shipped,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum Currency {
    Eur,
    Gbp,
    Usd,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Customer {
    pub(crate) id: u64,
    pub(crate) vip: bool,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Line {
    pub(crate) product: u64,
    pub(crate) quantity: u32,
    pub(crate) unit_price: f64,
}
