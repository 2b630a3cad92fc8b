//! A journal as a log in segments.
//!
//! Each commit is one frame, which one write and one sync put on the disk. A frame has records with checksums, and a header
//! that names its place. Segments are files of a fixed size that were filled with zeros, or with frames of an earlier use,
//! so that a sync has no metadata to write. The head names the segments; it is replaced as a whole when a segment is added
//! or freed.
//!
//! The index is in memory: where the latest value of each key is. A removal is an entry in the log, and is kept while a
//! segment has an earlier value of its key. Segments that have little of use left are emptied: commits copy what is
//! needed out of them, some of it with each commit.
//!
//! | module | what it has |
//! |---|---|
//! | `files`, `place` | the names of the files; creation, the lock and the reserve |
//! | `head` | the list of segments |
//! | `frame`, `entry`, `builder`, `frames` | the bytes of a commit, written and read |
//! | `index`, `state` | where values are, and which segments are needed |
//! | `scan` | reads the log when a store is opened |
//! | `rewrite` | puts on the disk what a failed sync may have left only in the cache |
//! | `active`, `ahead`, `cursor` | the segment that is written to, the one that is filled ahead, the one that is emptied |
//! | `journal`, `writer`, `segments`, `spare`, `compaction` | the journal: commits, new and freed segments, the spare one, copies |
//! | `shared`, `backup` | readers, and copies of a store |
//! | `salvage`, `unreadable` | what is left of a damaged one |

mod active;
mod ahead;
mod backup;
mod blocks;
mod builder;
mod compaction;
mod cursor;
mod damage;
mod entry;
mod files;
mod frame;
mod frames;
mod head;
mod index;
mod journal;
mod place;
mod rewrite;
mod salvage;
mod scan;
mod segments;
mod shared;
mod spare;
mod state;
#[cfg(test)]
mod tests;
mod unreadable;
mod writer;

pub(crate) use self::{
    damage::corrupted,
    journal::{LogJournal, LogOptions},
    salvage::{Salvaged, salvage},
};
