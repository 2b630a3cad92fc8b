//! A journal in one file, by [redb](https://docs.rs/redb).
//!
//! redb keeps what a commit has written, whatever happens to the process or the power. It trusts its pages, so that what
//! the disk has changed is found here: `pages` checks every page before redb sees it, `head` adds a checksum to the start
//! of the file, each value has a checksum, and each table a count and a digest of all that is in it. redb may panic where
//! it reads what it has not written, so that no call of it is made but through `guard`.
//!
//! `storage` is what a disk is: files of bytes in a folder. `file` is the real one. `place` has the names of the files, and
//! what each of them is after a crash.

mod backend;
mod backup;
mod checksum;
mod database;
mod file;
mod head;
mod meta;
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
