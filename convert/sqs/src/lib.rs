#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod attribute;
mod body;
mod confirmed;
mod layout;
mod names;
mod queue;
mod read;
mod requests;
mod settlement;
#[cfg(test)]
mod tests;
mod write;

pub use aws_sdk_sqs;

pub use self::{
    confirmed::confirmed,
    queue::Queue,
    read::{from_sqs, sequence_number},
    requests::{batch_entry, with_attributes},
    settlement::{Settlement, dead_letter, settlement},
    write::to_sqs,
};
