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

/// Ten fields in 256 bytes, three of them texts.
#[derive(Debug, Deserialize)]
pub(crate) struct Shipment {
    pub(crate) id: u64,
    pub(crate) order: u64,
    pub(crate) carrier: String,
    pub(crate) service: String,
    pub(crate) reference: String,
    pub(crate) parcels: u32,
    pub(crate) weight: f64,
    pub(crate) insured: bool,
    pub(crate) created: u64,
    pub(crate) due: u64,
}

pub(crate) const SHIPMENT: &[u8] = br#"{"id":1000000,"order":7000001,"carrier":"Northern Parcel and Freight","service":"next working day","reference":"b41cbd23-6f0a-4c1e-9a3d-52c7ee0f1b77/03-north-east-hub-l","parcels":3,"weight":12.75,"insured":true,"created":1764181672001,"due":1764268072001}"#;

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
