#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod confirmed;
mod names;
mod read;
mod record;
mod settlement;
#[cfg(test)]
mod tests;
mod write;

pub use rdkafka;

pub use self::{
    confirmed::confirmed,
    names::KEY,
    read::from_rdkafka,
    record::Record,
    settlement::{Settlement, abandoned, dead_letter, settlement},
    write::to_rdkafka,
};
