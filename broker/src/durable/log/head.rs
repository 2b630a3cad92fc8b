//! The head: which segments a store has.

use super::{
    super::{StorageError, StorageErrorKind, disk::Folder},
    damage::{damaged, failed},
    frame::PAGE,
};

/// The version that is written, and the latest that is read.
pub(super) const VERSION: u32 = 1;

const MAGIC: &[u8; 8] = b"csgnhead";
/// The value of the number of records while the store is open.
const OPEN: u64 = u64::MAX;
const FIXED: usize = 36;
const EXTENT: usize = 28;
const CHECKSUM: usize = 4;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// The random number of the store.
    pub(super) store: u64,
    /// How often the store was opened and written to.
    pub(super) epoch: u32,
    /// How many records there are, if the store was closed.
    pub(super) records: Option<u64>,
    /// By ascending number. The last one is written to.
    pub(super) segments: Vec<Extent>,
}

/// A segment, as far as it is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) number: u32,
    /// The length of the file.
    pub(super) size: u32,
    /// Frames up to here were written. Only the last segment may have more.
    pub(super) end: u32,
    /// The number of the first commit, and of the one after the last of these.
    pub(super) first: u64,
    pub(super) next: u64,
}

impl Head {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(FIXED + self.segments.len() * EXTENT + CHECKSUM);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&self.epoch.to_le_bytes());
        bytes.extend_from_slice(&self.store.to_le_bytes());
        bytes.extend_from_slice(&self.records.unwrap_or(OPEN).to_le_bytes());
        bytes.extend_from_slice(&u32::try_from(self.segments.len()).unwrap_or(u32::MAX).to_le_bytes());
        for Extent { number, size, end, first, next } in &self.segments {
            for small in [number, size, end] {
                bytes.extend_from_slice(&small.to_le_bytes());
            }
            for large in [first, next] {
                bytes.extend_from_slice(&large.to_le_bytes());
            }
        }
        let checksum = crc32fast::hash(&bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, StorageError> {
        let is_damaged = || damaged("head, offset 0: it is damaged");
        let (content, checksum) = bytes.split_last_chunk::<CHECKSUM>().ok_or_else(is_damaged)?;
        let mut fields = Fields(content.strip_prefix(MAGIC).ok_or_else(is_damaged)?);
        if crc32fast::hash(content) != u32::from_le_bytes(*checksum) {
            return Err(is_damaged());
        }
        match fields.small().ok_or_else(is_damaged)? {
            VERSION => {}
            version if version > VERSION => {
                let detail = format!("format {version}, and this version reads up to {VERSION}");
                return Err(StorageError::new(StorageErrorKind::NewerFormat, detail));
            }
            _ => return Err(damaged("head, offset 8: there is no such format")),
        }
        fields.head().filter(Self::is_consistent).ok_or_else(|| damaged("head, offset 12: its fields are inconsistent"))
    }

    fn is_consistent(&self) -> bool {
        let is_ordered = self.segments.is_sorted_by(|one, other| one.number < other.number && one.next <= other.first);
        is_ordered && self.segments.iter().all(|it| it.end <= it.size && it.size % PAGE == 0 && it.first <= it.next)
    }

    /// Reads the head of a store.
    pub(super) fn read(folder: &dyn Folder, name: &str) -> Result<Self, StorageError> {
        let read = || {
            let file = folder.open_to_read(name)?;
            let mut bytes = vec![0; usize::try_from(file.len()?).map_err(std::io::Error::other)?];
            file.read(0, &mut bytes)?;
            Ok(bytes)
        };
        Self::decode(&read().map_err(|error| failed("reading", name, error))?)
    }
}

/// The fields that are not yet read.
struct Fields<'b>(&'b [u8]);

impl Fields<'_> {
    fn small(&mut self) -> Option<u32> {
        let (field, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*field))
    }

    fn large(&mut self) -> Option<u64> {
        let (field, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*field))
    }

    fn head(&mut self) -> Option<Head> {
        let (epoch, store, records, count) = (self.small()?, self.large()?, self.large()?, self.small()?);
        if self.0.len() != usize::try_from(count).ok()?.checked_mul(EXTENT)? {
            return None;
        }
        let mut segments = Vec::new();
        while !self.0.is_empty() {
            let (number, size, end) = (self.small()?, self.small()?, self.small()?);
            segments.push(Extent { number, size, end, first: self.large()?, next: self.large()? });
        }
        Some(Head { store, epoch, records: Some(records).filter(|records| *records != OPEN), segments })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> Head {
        let extent = |number: u32| Extent { number, size: 8_192, end: 512, first: number.into(), next: number.into() };
        Head { store: 1 << 60, epoch: 3, records: None, segments: vec![extent(4), extent(9)] }
    }

    #[test]
    fn a_head_is_read_as_it_was_written_or_not_at_all() {
        for head in [head(), Head { records: Some(7), segments: Vec::new(), ..head() }] {
            let bytes = head.encode();
            assert_eq!(Head::decode(&bytes).unwrap(), head);
            for length in 0..bytes.len() {
                assert!(Head::decode(&bytes[..length]).is_err(), "{length} bytes");
            }
            for bit in 0..bytes.len() * 8 {
                let mut damaged = bytes.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                let error = Head::decode(&damaged).unwrap_err();
                assert_eq!(error.kind(), StorageErrorKind::Corrupted, "bit {bit}");
            }
        }
    }

    #[test]
    fn a_head_that_contradicts_itself_is_refused() {
        let changes: [fn(&mut Extent); 4] =
            [|it| it.number = 1, |it| it.end = 8_193, |it| it.size = 8_191, |it| it.next = 3];
        for change in changes {
            let mut head = head();
            change(&mut head.segments[1]);
            assert_eq!(Head::decode(&head.encode()).unwrap_err().kind(), StorageErrorKind::Corrupted);
        }
    }
}
