//! The format of a store: the names in the table that describes it, and the version.

use super::{
    super::{StorageError, StorageErrorKind},
    checksum::{corrupted, verified},
};

/// The table that describes a store.
pub(super) const META: &str = "meta";
pub(super) const FORMAT: &str = "format";
pub(super) const TOTALS: &str = "totals";

/// The version that is written, and the latest that is read.
pub(super) const VERSION: u32 = 1;

/// Whether this version reads the format that a store declares.
pub(super) fn check(stored: Option<Vec<u8>>) -> Result<(), StorageError> {
    let stored = stored.ok_or_else(|| corrupted(META, FORMAT.as_bytes(), "it is missing"))?;
    match verified(META, FORMAT.as_bytes(), &stored)?.try_into().map(u32::from_le_bytes) {
        Ok(VERSION) => Ok(()),
        Ok(version) if version > VERSION => {
            let detail = format!("format {version}, and this version reads up to {VERSION}");
            Err(StorageError::new(StorageErrorKind::NewerFormat, detail))
        }
        _ => Err(corrupted(META, FORMAT.as_bytes(), "there is no such format")),
    }
}
