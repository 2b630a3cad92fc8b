//! The embedded broker on a disk.
//!
//! The engine stays without I/O. What a command has changed is written by one thread, which commits all that has come
//! together meanwhile at once, and only then answers those who wait for it.
//!
//! `journal` is the seam: records by table and key, committed in batches. `redb` is its one implementation, `record` says
//! what the bytes of a record mean.

mod commits;
mod error;
mod fetcher;
mod journal;
mod json_lines;
mod later;
mod open;
mod options;
#[cfg(test)]
mod panics;
pub(super) mod record;
mod recorder;
mod redb;
mod rescue;
mod sabotage;
#[cfg(test)]
mod samples;
#[cfg(test)]
mod steps;
#[cfg(test)]
mod tests;
mod writer;

pub(super) use self::{
    commits::Commit,
    journal::{Batch, Table, key},
    json_lines::{Line, LineError, MAX_LINE, read_messages, write_message},
    recorder::Recorder,
};
use self::{commits::Commits, journal::Journal};
pub use self::{
    error::{StorageError, StorageErrorKind},
    open::Recovery,
    options::{Durability, OpenOptions},
    rescue::Salvage,
};

/// A record that is not as it was written.
pub(super) fn corrupted(table: Table, key: &[u8], what: &str) -> StorageError {
    redb::corrupted(table.name(), key, what)
}
