//! A journal in one file, by [redb](https://docs.rs/redb).
//!
//! redb keeps its commits after a process crash or power loss. It trusts its pages, so this module detects what the
//! disk has changed. `pages` checks every page before redb sees it. `head` adds a checksum to the start of the file.
//! Each value has a checksum, and each table has a count and a digest of its records. redb may panic where it reads
//! what it has not written, so every call of it goes through `guard`.
//!
//! `storage` defines a disk: files of bytes in a folder. `file` is the real one. `place` has the names of the files,
//! and their meaning after a crash.

mod backend;
mod backup;
mod checksum;
mod database;
mod file;
mod format;
mod head;
mod meta;
mod open;
mod pages;
mod place;
mod salvage;
#[cfg(test)]
mod simulated;
mod storage;
#[cfg(test)]
mod tests;
mod totals;

#[cfg(test)]
pub(crate) use self::simulated::{Faults, SimulatedDisk};
pub(crate) use self::{
    checksum::corrupted,
    database::{RedbJournal, RedbOptions},
    salvage::{Salvaged, salvage},
};
