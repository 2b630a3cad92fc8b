//! The format of records.
//!
//! Every record begins with the version of its kind. The rest is in `docs/store-format.md`, and every version stays
//! readable. A change of a kind is a new version, which is the only one written from then on. It adds fields behind
//! the existing ones. A reader of an older version uses the default that the field had before. No field is removed
//! and no number is reused.
//! is used again.
//!
//! The code is written by hand, and does not use serde and postcard. These take more than half as many instructions
//! again, cannot add a field, and bound no depth.
//!
//! A record is written in one pass behind the contents of its buffer. Reading allocates for the bytes that exist, not
//! for announced lengths, and no input makes it panic. The journal checks that the bytes are those that were written.

mod body;
mod broker;
mod counter;
mod entity;
mod id;
mod malformed;
mod message;
mod properties;
mod reader;
mod rules;
mod session;
mod settings;
#[cfg(test)]
mod tests;
mod write;
