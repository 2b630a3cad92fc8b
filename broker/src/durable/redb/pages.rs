//! The pages of a file of redb, by its format 3, read beside redb.
//!
//! redb trusts its pages. A flipped bit in the list of free pages would make it write over records, and one in a
//! pointer would make it allocate gigabytes. Each pointer to a page has a checksum of the page beside it. A walk from
//! the head therefore finds every page that differs from what was written.

use std::collections::BTreeMap;

use twox_hash::XxHash3_128;

use super::{
    super::StorageError,
    head::{Head, Root, Slot, damaged, failed, number},
    storage::Storage,
};

const PAGE: u64 = 4_096;
const LEAF: u8 = 1;
const BRANCH: u8 = 2;
/// redb rejects a tree that is deeper.
const DEEPEST: usize = 32;
/// A page has up to two to this power pages of the smallest size.
const MOST_ORDER: u64 = 20;

/// Entries of a tree, by key and value.
pub(super) type Visit<'v> = dyn FnMut(&[u8], &[u8]) -> Result<(), StorageError> + 'v;

/// A walk through the pages.
pub(super) struct Walk<'s> {
    storage: &'s dyn Storage,
    length: u64,
    /// Pages of a region in bytes, before those of data and all.
    region: (u64, u64),
    /// Pages that may still be read. Each is at most once in a tree that is good.
    left: u64,
    /// Where pages were read, by a lenient walk.
    pub(super) seen: BTreeMap<u64, usize>,
    /// The damages, and their offsets.
    pub(super) damages: Vec<(u64, &'static str)>,
    /// Whether it continues after damage.
    is_lenient: bool,
}

/// The widths of keys and values in a tree, where they are fixed.
#[derive(Clone, Copy, Default)]
pub(super) struct Widths {
    key: Option<usize>,
    value: Option<usize>,
}

/// A table as the tree of tables has it.
pub(super) struct TableRoot {
    pub(super) root: Option<Root>,
    pub(super) widths: Widths,
}

impl TableRoot {
    /// Reads a table; `None` if the bytes are not one.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        const NORMAL: u8 = 3;
        const ROOT: usize = 10;
        const WIDTHS: usize = ROOT + Root::LEN;
        if *bytes.first()? != NORMAL {
            return None;
        }
        let width = |at: usize| {
            let bytes = bytes.get(at..at + 5)?;
            let width = u32::from_le_bytes(bytes[1..].try_into().ok()?);
            Some((bytes[0] != 0).then_some(width as usize))
        };
        let widths = Widths { key: width(WIDTHS)?, value: width(WIDTHS + 5)? };
        let root = Root::read(bytes.get(ROOT..WIDTHS)?)?;
        Some(Self { root: (bytes[ROOT - 1] != 0).then_some(root), widths })
    }
}

/// Returns the latest commit, after a check of every page.
pub(super) fn verify(storage: &dyn Storage) -> Result<Slot, StorageError> {
    let head = Head::read(storage)?;
    let mut first = None;
    for slot in head.slots() {
        let mut walk = Walk::new(storage, &head)?;
        walk.slot(&slot)?;
        match walk.damages.first() {
            None => return Ok(slot),
            Some((offset, what)) => first = first.or(Some(damaged(format!("at offset {offset}: {what}")))),
        }
    }
    Err(first.unwrap_or_else(|| damaged("at offset 0: there is no commit")))
}

/// Returns the value of this name in a table of a commit.
pub(super) fn value(
    storage: &dyn Storage,
    commit: &Slot,
    table: &str,
    name: &str,
) -> Result<Option<Vec<u8>>, StorageError> {
    let mut walk = Walk::new(storage, &Head::read(storage)?)?;
    let Some(root) = commit.tables else { return Ok(None) };
    let mut found = None;
    for (_, table) in walk.tables(root)?.into_iter().filter(|(at, _)| at == table.as_bytes()) {
        let Some(root) = table.root else { continue };
        walk.tree(root, table.widths, &mut |key, value| {
            if key == name.as_bytes() {
                found = Some(value.to_vec());
            }
            Ok(())
        })?;
    }
    Ok(found)
}

impl<'s> Walk<'s> {
    pub(super) fn new(storage: &'s dyn Storage, head: &Head) -> Result<Self, StorageError> {
        let length = storage.len().map_err(|error| failed("reading the length", error))?;
        let (before, data) = head.region();
        if head.page_size() != PAGE {
            return Err(damaged("at offset 0: the size of a page is wrong"));
        }
        let region = (before * PAGE, (before + data) * PAGE);
        Ok(Self {
            storage,
            length,
            region,
            left: length / PAGE,
            seen: BTreeMap::new(),
            damages: Vec::new(),
            is_lenient: false,
        })
    }

    /// Creates a walk that continues after damage.
    pub(super) fn lenient(storage: &'s dyn Storage, head: &Head) -> Result<Self, StorageError> {
        Ok(Self { is_lenient: true, ..Self::new(storage, head)? })
    }

    /// Walks everything in a commit.
    pub(super) fn slot(&mut self, slot: &Slot) -> Result<(), StorageError> {
        for root in [slot.system, slot.tables].into_iter().flatten() {
            for (_, table) in self.tables(root)? {
                if let Some(root) = table.root {
                    self.tree(root, table.widths, &mut |_, _| Ok(()))?;
                }
            }
        }
        Ok(())
    }

    /// Returns the tables by their names.
    pub(super) fn tables(&mut self, root: Root) -> Result<Vec<(Vec<u8>, TableRoot)>, StorageError> {
        let (mut tables, mut others) = (Vec::new(), 0);
        self.tree(root, Widths::default(), &mut |name, table| {
            match TableRoot::read(table) {
                Some(table) => tables.push((name.to_vec(), table)),
                None => others += 1,
            }
            Ok(())
        })?;
        if others > 0 {
            self.damages.push((0, "a table is of no known kind"));
        }
        Ok(tables)
    }

    /// Walks everything in a tree. A lenient walk reads a damaged leaf as far as possible.
    pub(super) fn tree(&mut self, root: Root, widths: Widths, visit: &mut Visit<'_>) -> Result<(), StorageError> {
        self.page(root, widths, DEEPEST, 0, visit)
    }

    fn page(
        &mut self,
        at: Root,
        widths: Widths,
        deeper: usize,
        parent: u64,
        visit: &mut Visit<'_>,
    ) -> Result<(), StorageError> {
        if !self.damages.is_empty() && !self.is_lenient {
            return Ok(());
        }
        let place = self.place(at.page).filter(|_| deeper > 0 && self.left > 0);
        let Some((offset, size)) = place else {
            self.damages.push((parent, "a page points to nowhere"));
            return Ok(());
        };
        self.left -= 1;
        if self.is_lenient && self.seen.insert(offset, size).is_some() {
            self.damages.push((parent, "two pages point to the same one"));
            return Ok(());
        }
        let mut page = vec![0; size];
        self.storage.read(offset, &mut page).map_err(|error| failed(&format!("reading at offset {offset}"), error))?;
        let end = match page[0] {
            LEAF => Leaf::of(&page, widths).and_then(|leaf| leaf.end()),
            BRANCH => Branch::of(&page, widths).and_then(|branch| branch.end()),
            _ => None,
        };
        let is_good = end.and_then(|end| page.get(..end)).is_some_and(|used| XxHash3_128::oneshot(used) == at.checksum);
        if !is_good {
            self.damages.push((offset, "the checksum of the page is wrong"));
            if !self.is_lenient {
                return Ok(());
            }
        }
        match page[0] {
            LEAF => Leaf::of(&page, widths).map_or(Ok(()), |leaf| leaf.entries(visit)),
            BRANCH => {
                let children = Branch::of(&page, widths).into_iter().flat_map(Branch::children);
                for child in children.collect::<Vec<_>>() {
                    self.page(child, widths, deeper - 1, offset, visit)?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Returns offset and size of a page, if it is within the file.
    fn place(&self, page: u64) -> Option<(u64, usize)> {
        let order = page >> 59;
        if order > MOST_ORDER {
            return None;
        }
        let (index, region, size) = (page & (0xF_FFFF >> order), page >> 20 & 0xF_FFFF, PAGE << order);
        let offset = PAGE + region.checked_mul(self.region.1)? + self.region.0 + index * size;
        (offset.checked_add(size)? <= self.length).then_some((offset, usize::try_from(size).ok()?))
    }
}

/// Entries, with the ends of keys and of values before them where they have no fixed width.
struct Leaf<'p> {
    page: &'p [u8],
    entries: usize,
    widths: Widths,
}

impl<'p> Leaf<'p> {
    fn of(page: &'p [u8], widths: Widths) -> Option<Self> {
        let entries = usize::from(count(page)?);
        (entries > 0).then_some(Self { page, entries, widths })
    }

    /// Where the ends of the keys, those of the values, and the keys begin.
    fn starts(&self) -> (usize, usize, usize) {
        let ends = |width: Option<usize>| if width.is_none() { 4 * self.entries } else { 0 };
        let values = 4 + ends(self.widths.key);
        (4, values, values + ends(self.widths.value))
    }

    fn key_end(&self, entry: usize) -> Option<usize> {
        let (ends, _, keys) = self.starts();
        match self.widths.key {
            Some(width) => width.checked_mul(entry + 1)?.checked_add(keys),
            None => end(self.page, ends, entry),
        }
    }

    fn value_end(&self, entry: usize) -> Option<usize> {
        let (_, ends, _) = self.starts();
        match self.widths.value {
            Some(width) => width.checked_mul(entry + 1)?.checked_add(self.key_end(self.entries - 1)?),
            None => end(self.page, ends, entry),
        }
    }

    fn end(&self) -> Option<usize> {
        self.value_end(self.entries - 1)
    }

    /// Those that are within the page.
    fn entries(&self, visit: &mut Visit<'_>) -> Result<(), StorageError> {
        let (mut key_start, mut value_start) = (Some(self.starts().2), self.key_end(self.entries - 1));
        for entry in 0..self.entries {
            let (key_end, value_end) = (self.key_end(entry), self.value_end(entry));
            let slice = |start: Option<usize>, end: Option<usize>| self.page.get(start?..end?);
            if let (Some(key), Some(value)) = (slice(key_start, key_end), slice(value_start, value_end)) {
                visit(key, value)?;
            }
            (key_start, value_start) = (key_end, value_end);
        }
        Ok(())
    }
}

/// Pages below, with their checksums, and the keys between them.
struct Branch<'p> {
    page: &'p [u8],
    keys: usize,
    widths: Widths,
}

impl<'p> Branch<'p> {
    const START: usize = 8;
    const CHECKSUM: usize = 16;

    fn of(page: &'p [u8], widths: Widths) -> Option<Self> {
        let keys = usize::from(count(page)?);
        (keys > 0).then_some(Self { page, keys, widths })
    }

    fn end(&self) -> Option<usize> {
        let after = Self::START + (Self::CHECKSUM + 8) * (self.keys + 1);
        match self.widths.key {
            Some(width) => width.checked_mul(self.keys)?.checked_add(after),
            None => end(self.page, after, self.keys - 1),
        }
    }

    fn children(self) -> impl Iterator<Item = Root> {
        let children = self.keys + 1;
        let pages = Self::START + Self::CHECKSUM * children;
        (0..children).map_while(move |child| {
            let checksum = Self::START + Self::CHECKSUM * child;
            let checksum = self.page.get(checksum..checksum + Self::CHECKSUM)?.try_into().ok()?;
            Some(Root { page: number(self.page, pages + 8 * child)?, checksum: u128::from_le_bytes(checksum) })
        })
    }
}

fn count(page: &[u8]) -> Option<u16> {
    Some(u16::from_le_bytes(page.get(2..4)?.try_into().ok()?))
}

/// Returns the end in a list of ends.
fn end(page: &[u8], list: usize, entry: usize) -> Option<usize> {
    let at = list + 4 * entry;
    Some(u32::from_le_bytes(page.get(at..at + 4)?.try_into().ok()?) as usize)
}
