//! Messages as AMQP 0-9-1 has them: properties, headers and a payload.

mod body;
pub(crate) mod history;
mod made_id;
mod malformed;
pub(crate) mod names;
mod nested;
mod property;
mod read;
mod value;
mod write;

pub(crate) use self::{
    malformed::Malformed,
    names::ACQUIRED,
    read::{Facts, integer, read},
    write::{Expiration, Stamp, Written, again, header, write},
};

/// Longest short string, in bytes: properties and names of headers are such.
pub(crate) const SHORT: usize = 255;

#[cfg(test)]
mod foreign;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod tests;
