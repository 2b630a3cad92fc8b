//! A journal in one file, by [redb](https://docs.rs/redb).
//!
//! redb keeps what a commit has written, whatever happens to the process or the power. What it does not see, such as a
//! page that the disk has changed, is found here: each value has a checksum, each table a count and a digest of all that
//! is in it, and the head of the file a checksum of its own. redb trusts its pages, and may panic where they are damaged,
//! so that no call of it is made but through `guard`.
//!
//! `storage` is what is left of a disk for redb: bytes at offsets. `file` is the real one.

mod backend;
mod checksum;
mod database;
mod file;
mod storage;
#[cfg(test)]
mod tests;
mod totals;

#[allow(unused_imports, reason = "the writer comes on top of it")]
pub(crate) use self::database::{RedbJournal, RedbOptions};
