//! The embedded broker on a disk.
//!
//! The engine stays without I/O. One thread writes the changes of commands. It commits all that were collected
//! meanwhile at once, and only then completes the calls that wait.
//!
//! `journal` is the storage API: records by table and key, committed in batches. `log` is its one implementation, on the
//! files of `disk`. `record` defines the bytes of a record.

mod commits;
mod disk;
mod error;
mod fetcher;
mod journal;
pub mod json_lines;
mod later;
mod log;
mod open;
mod options;
#[cfg(test)]
mod panics;
pub(super) mod record;
mod recorder;
mod recovery;
mod rescue;
mod restore;
mod sabotage;
#[cfg(test)]
mod samples;
mod sink;
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
    sink::Taken,
};
use self::{commits::Commits, journal::Journal};
pub use self::{
    error::{StorageError, StorageErrorKind},
    options::{Durability, OpenOptions},
    recovery::Recovery,
    rescue::Salvage,
};

/// Returns the error for a record that differs from what was written.
pub(super) fn corrupted(table: Table, key: &[u8], what: &str) -> StorageError {
    log::corrupted(table.name(), key, what)
}
