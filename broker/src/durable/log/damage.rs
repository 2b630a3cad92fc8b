//! Errors that name a damage and its place.

use std::io;

use data_encoding::HEXLOWER;

use super::{
    super::{StorageError, StorageErrorKind, disk::is_full},
    files,
};

/// Returns the error for a record that is damaged.
pub(crate) fn corrupted(table: &str, key: &[u8], what: &str) -> StorageError {
    damaged(record(table, key, what))
}

/// Describes the damage of a record.
pub(super) fn record(table: &str, key: &[u8], what: &str) -> String {
    /// Bytes of a key that are shown.
    const SHOWN: usize = 64;
    let key = HEXLOWER.encode(&key[..key.len().min(SHOWN)]);
    format!("record {key} of table {table}: {what}")
}

/// Describes the damage of a segment.
pub(super) fn at(segment: u32, offset: u32, what: &str) -> String {
    format!("{}, offset {offset}: {what}", files::segment(segment))
}

pub(super) fn damaged(detail: impl Into<String>) -> StorageError {
    StorageError::new(StorageErrorKind::Corrupted, detail.into())
}

/// Converts an error of the disk.
pub(super) fn failed(what: &str, name: &str, error: io::Error) -> StorageError {
    let kind = match error.kind() {
        _ if is_full(&error) => StorageErrorKind::Full,
        io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData => StorageErrorKind::Corrupted,
        _ => StorageErrorKind::Failed,
    };
    StorageError::new(kind, format!("{what} {name}: {error}")).with_source(error)
}

/// Converts an error after which the contents of the disk are unknown, also if the disk is full.
pub(super) fn unknown(what: &str, name: &str, error: io::Error) -> StorageError {
    StorageError::new(StorageErrorKind::Failed, format!("{what} {name}: {error}")).with_source(error)
}
