//! The embedded broker on a disk.
//!
//! The engine stays without I/O. What a command has changed is written by one thread, which commits all that has come
//! together meanwhile at once, and only then answers those who wait for it.
//!
//! `journal` is the seam: records by table and key, committed in batches. `redb` is its one implementation, `record` says
//! what the bytes of a record mean.

#![allow(dead_code, reason = "the writer comes on top of it")]

mod error;
mod journal;
mod record;

pub use self::error::{StorageError, StorageErrorKind};
