use data_encoding::HEXLOWER;

use super::super::{StorageError, StorageErrorKind};

/// The length of a checksum, which follows each value.
pub(super) const LEN: usize = 4;

/// Computes a checksum over the table, the key and the value, to detect a good value in a wrong place.
pub(super) fn of(table: &str, key: &[u8], value: &[u8]) -> [u8; LEN] {
    let mut hasher = crc32fast::Hasher::new();
    for part in [table.as_bytes(), key] {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hasher.update(value);
    hasher.finalize().to_le_bytes()
}

/// Returns the value with its checksum.
pub(super) fn sealed(table: &str, key: &[u8], value: &[u8]) -> Vec<u8> {
    [value, &of(table, key, value)].concat()
}

/// Returns the value without its checksum.
pub(super) fn verified<'v>(table: &str, key: &[u8], stored: &'v [u8]) -> Result<&'v [u8], StorageError> {
    let parts = stored.split_last_chunk().filter(|(value, checksum)| of(table, key, value) == **checksum);
    parts.map(|(value, _)| value).ok_or_else(|| corrupted(table, key, "its checksum is wrong"))
}

/// Returns the error for a record that is damaged.
pub(crate) fn corrupted(table: &str, key: &[u8], what: &str) -> StorageError {
    /// Hexadecimal digits of a key that are shown.
    const SHOWN: usize = 64;
    let key = HEXLOWER.encode(&key[..key.len().min(SHOWN)]);
    StorageError::new(StorageErrorKind::Corrupted, format!("record {key} of table {table}: {what}"))
}
