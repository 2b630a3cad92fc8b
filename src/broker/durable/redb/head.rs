use super::{
    super::{StorageError, StorageErrorKind},
    storage::Storage,
};

/// Bytes of redb's head, which stand at the start of the file.
const LEN: usize = 320;
/// Where a page has room left behind the head, and within the first sector: our name and a checksum of the head.
///
/// One byte of the head says which of the two last commits is the latest. Without a checksum of it the one before would
/// come back by a single flipped bit.
const SEALED: usize = LEN + MARK.len() + 4;
const MARK: &[u8; 4] = b"csgn";

const MAGIC: &[u8; 9] = b"redb\x1a\x0a\xa9\x0d\x0a";
const SLOTS: [usize; 2] = [64, 192];

/// The start of the file: how it is laid out, and where the last two commits are.
#[derive(Debug)]
pub(super) struct Head([u8; LEN]);

/// One commit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    /// The tree of the tables.
    pub(super) tables: Option<Root>,
    /// The tree of redb's own tables, such as which pages are free.
    pub(super) system: Option<Root>,
    number: u64,
    is_good: bool,
}

/// Where a tree begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Root {
    pub(super) page: u64,
    pub(super) checksum: u128,
}

impl Root {
    pub(super) const LEN: usize = 32;

    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        Some(Self { page: number(bytes, 0)?, checksum: u128::from_le_bytes(bytes.get(8..24)?.try_into().ok()?) })
    }
}

/// What is to be written where redb writes its head. Nothing where it writes something else.
pub(super) fn seal(offset: u64, data: &[u8]) -> Option<[u8; SEALED]> {
    let head: &[u8; LEN] = data.try_into().ok().filter(|_| offset == 0)?;
    let mut sealed = [0; SEALED];
    let (head_place, rest) = sealed.split_at_mut(LEN);
    let (mark, checksum) = rest.split_at_mut(MARK.len());
    head_place.copy_from_slice(head);
    mark.copy_from_slice(MARK);
    checksum.copy_from_slice(&crc32fast::hash(head).to_le_bytes());
    Some(sealed)
}

impl Head {
    /// The head, if it is as it was written.
    pub(super) fn read(storage: &dyn Storage) -> Result<Self, StorageError> {
        let (head, is_sealed) = Self::read_any(storage)?;
        if is_sealed { Ok(head) } else { Err(damaged("its head is damaged, at offset 0")) }
    }

    /// The head whatever its state, and whether it is as it was written.
    pub(super) fn read_any(storage: &dyn Storage) -> Result<(Self, bool), StorageError> {
        let mut sealed = [0; SEALED];
        let length = storage.len().map_err(|error| failed("reading the length", error))?;
        if length < SEALED as u64 {
            return Err(damaged("it is cut off, at offset 0"));
        }
        storage.read(0, &mut sealed).map_err(|error| failed("reading the head", error))?;
        let mut head = [0; LEN];
        head.copy_from_slice(&sealed[..LEN]);
        let is_sealed = head.starts_with(MAGIC) && seal(0, &head) == Some(sealed);
        Ok((Self(head), is_sealed))
    }

    pub(super) fn page_size(&self) -> u64 {
        self.small(12)
    }

    /// Pages of a region before those of data, and those.
    pub(super) fn region(&self) -> (u64, u64) {
        (self.small(16), self.small(20))
    }

    /// The commits that may be the latest, the likeliest first, as redb chooses.
    pub(super) fn slots(&self) -> Vec<Slot> {
        let flags = self.0[MAGIC.len()];
        let (is_second, is_certain) = (flags & 1 != 0, flags & 4 != 0);
        let mut slots = SLOTS.map(|offset| self.slot(offset));
        if is_second {
            slots.reverse();
        }
        if is_certain {
            return slots[..1].iter().filter(|slot| slot.is_good).copied().collect();
        }
        if slots[1].number > slots[0].number {
            slots.reverse();
        }
        slots.into_iter().filter(|slot| slot.is_good).collect()
    }

    /// Both, good or not.
    pub(super) fn newest_first(&self) -> Vec<Slot> {
        let mut slots = SLOTS.map(|offset| self.slot(offset)).to_vec();
        slots.sort_by_key(|slot| (!slot.is_good, u64::MAX - slot.number));
        slots
    }

    fn slot(&self, offset: usize) -> Slot {
        const CHECKSUM: usize = 112;
        let slot = &self.0[offset..offset + 128];
        let root = |flag: usize, at: usize| Root::read(&slot[at..at + Root::LEN]).filter(|_| slot[flag] != 0);
        let checksum = twox_hash::XxHash3_128::oneshot(&slot[..CHECKSUM]);
        Slot {
            tables: root(1, 8),
            system: root(2, 40),
            number: number(slot, 104).unwrap_or_default(),
            is_good: slot[CHECKSUM..] == checksum.to_le_bytes(),
        }
    }

    fn small(&self, at: usize) -> u64 {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(&self.0[at..at + 4]);
        u32::from_le_bytes(bytes).into()
    }
}

/// The number at an offset, if there is room for one.
pub(super) fn number(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

pub(super) fn damaged(detail: impl Into<String>) -> StorageError {
    StorageError::new(StorageErrorKind::Corrupted, detail.into())
}

pub(super) fn failed(what: &str, error: std::io::Error) -> StorageError {
    StorageError::new(StorageErrorKind::Failed, format!("{what}: {error}")).with_source(error)
}
