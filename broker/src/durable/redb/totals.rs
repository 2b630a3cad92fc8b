use std::hash::Hasher;

use siphasher::sip::SipHasher13;

use super::{super::journal::Table, checksum};

/// The totals of each table, to detect a record that disappears although every other one is good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals([Total; Table::ALL.len()]);

/// Of one table. The order in which records come and go does not matter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Total {
    pub(super) records: u64,
    /// Of keys and values with their checksums.
    pub(super) bytes: u64,
    digest: u64,
}

impl Total {
    const LEN: usize = 24;

    /// A record, its value with the checksum.
    pub(super) fn add(&mut self, key: &[u8], stored: &[u8]) {
        self.records = self.records.wrapping_add(1);
        self.bytes = self.bytes.wrapping_add((key.len() + stored.len()) as u64);
        self.digest = self.digest.wrapping_add(hash(key, stored));
    }

    pub(super) fn remove(&mut self, key: &[u8], stored: &[u8]) {
        self.records = self.records.wrapping_sub(1);
        self.bytes = self.bytes.wrapping_sub((key.len() + stored.len()) as u64);
        self.digest = self.digest.wrapping_sub(hash(key, stored));
    }
}

/// Returns the hash of a record. The checksum represents the value.
fn hash(key: &[u8], stored: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write(&stored[stored.len().saturating_sub(checksum::LEN)..]);
    hasher.write(key);
    hasher.finish()
}

impl Totals {
    pub(super) const LEN: usize = Total::LEN * Table::ALL.len();

    pub(super) fn of(&self, table: Table) -> Total {
        self.0[table as usize]
    }

    pub(super) fn of_mut(&mut self, table: Table) -> &mut Total {
        &mut self.0[table as usize]
    }

    /// Of all tables.
    pub(super) fn bytes(&self) -> u64 {
        self.0.iter().fold(0, |sum, total| sum.wrapping_add(total.bytes))
    }

    pub(super) fn encode(&self) -> [u8; Self::LEN] {
        let mut encoded = [0; Self::LEN];
        let numbers = self.0.iter().flat_map(|total| [total.records, total.bytes, total.digest]);
        for (place, number) in encoded.chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        encoded
    }

    pub(super) fn decode(encoded: &[u8]) -> Option<Self> {
        let encoded: &[u8; Self::LEN] = encoded.try_into().ok()?;
        let mut numbers = encoded.as_chunks().0.iter().map(|number| u64::from_le_bytes(*number));
        let mut next = || numbers.next().unwrap_or_default();
        Some(Self(std::array::from_fn(|_| Total { records: next(), bytes: next(), digest: next() })))
    }
}
