use super::{
    super::{StorageError, StorageErrorKind},
    storage::Storage,
};

/// The length of redb's head, which is at the start of the file.
const LEN: usize = 320;
/// The length of redb's head, and behind it our name and a checksum of the head. A page has space there, within the
/// first sector.
///
/// One byte of the head marks which of the two last commits is the latest. Without a checksum of it a single flipped
/// bit would restore the commit before.
const SEALED: usize = LEN + MARK.len() + 4;
const MARK: &[u8; 4] = b"csgn";

const MAGIC: &[u8; 9] = b"redb\x1a\x0a\xa9\x0d\x0a";
const SLOTS: [usize; 2] = [64, 192];

/// The start of the file: its layout, and the last two commits.
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

/// The start of a tree.
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

/// Returns what to write where redb writes its head. `None` for any other write.
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
    /// Returns the head, if it is as it was written.
    pub(super) fn read(storage: &dyn Storage) -> Result<Self, StorageError> {
        let (head, is_sealed) = Self::read_any(storage)?;
        if is_sealed { Ok(head) } else { Err(damaged("its head is damaged, at offset 0")) }
    }

    /// Returns the head whatever its state, and whether it is as it was written.
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

    /// Returns the commits that may be the latest, the likeliest first, as redb chooses.
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

    /// Returns both commits, good or not.
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

/// Returns the number at an offset, if the bytes hold one there.
pub(super) fn number(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

pub(super) fn damaged(detail: impl Into<String>) -> StorageError {
    StorageError::new(StorageErrorKind::Corrupted, detail.into())
}

pub(super) fn failed(what: &str, error: std::io::Error) -> StorageError {
    StorageError::new(StorageErrorKind::Failed, format!("{what}: {error}")).with_source(error)
}
