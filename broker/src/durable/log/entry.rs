//! One record in a frame: a value of a key, or the removal of a key.

use super::super::journal::Table;

/// Bytes before the key: the table, the lengths of the key and the value, and the checksum.
pub(super) const HEAD: usize = 11;
const LENGTHS: usize = 7;

/// Set in the first byte of a removal.
const REMOVAL: u8 = 0x80;

/// Bytes that the value of a removal has.
pub(super) const SPAN: usize = 8;

/// Segments, the first and the last of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Span {
    pub(super) oldest: u32,
    pub(super) newest: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change<'b> {
    Put(&'b [u8]),
    /// Values of the key are in these segments only.
    Removed(Span),
}

/// An entry as it is in a segment. Its checksum is not yet verified.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry<'b> {
    pub(super) table: Table,
    pub(super) key: &'b [u8],
    pub(super) change: Change<'b>,
    /// Where it begins in its segment.
    pub(super) offset: u32,
    /// All of its bytes.
    pub(super) length: u32,
    bytes: &'b [u8],
}

/// The bytes are not an entry.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Malformed {
    /// Where in the segment.
    pub(super) offset: u32,
}

/// Appends an entry that will be at this place.
pub(super) fn append(
    out: &mut Vec<u8>,
    segment: u32,
    offset: u32,
    table: Table,
    key: &[u8],
    change: Change<'_>,
) -> Option<()> {
    let mut span = [0; SPAN];
    let (removal, value) = match change {
        Change::Put(value) => (0, value),
        Change::Removed(Span { oldest, newest }) => {
            span[..4].copy_from_slice(&oldest.to_le_bytes());
            span[4..].copy_from_slice(&newest.to_le_bytes());
            (REMOVAL, &span[..])
        }
    };
    let mut lengths = [table as u8 | removal; LENGTHS];
    lengths[1..3].copy_from_slice(&u16::try_from(key.len()).ok()?.to_le_bytes());
    lengths[3..].copy_from_slice(&u32::try_from(value.len()).ok()?.to_le_bytes());
    out.extend_from_slice(&lengths);
    out.extend_from_slice(&checksum(segment, offset, &[&lengths, key, value]));
    out.extend_from_slice(key);
    out.extend_from_slice(value);
    Some(())
}

/// The place is part of the checksum, to detect an entry that is good, and not the one that was written there.
fn checksum(segment: u32, offset: u32, parts: &[&[u8]]) -> [u8; 4] {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&segment.to_le_bytes());
    hasher.update(&offset.to_le_bytes());
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize().to_le_bytes()
}

/// Reads the entry at the start of these bytes, which are at this offset of a segment.
pub(super) fn read(bytes: &[u8], offset: u32) -> Option<Entry<'_>> {
    let (head, rest) = bytes.split_at_checked(HEAD)?;
    let table = *Table::ALL.get(usize::from(head[0] & !REMOVAL))?;
    let key = usize::from(u16::from_le_bytes(*head[1..].first_chunk()?));
    let value = u32::from_le_bytes(*head[3..].first_chunk()?);
    let length = u32::try_from(HEAD + key).ok()?.checked_add(value)?;
    let (key, rest) = rest.split_at_checked(key)?;
    let value = rest.get(..usize::try_from(value).ok()?)?;
    let change = if head[0] & REMOVAL == 0 { Change::Put(value) } else { Change::Removed(span(value)?) };
    let bytes = bytes.get(..usize::try_from(length).ok()?)?;
    Some(Entry { table, key, change, offset, length, bytes })
}

fn span(value: &[u8]) -> Option<Span> {
    let value: &[u8; SPAN] = value.try_into().ok()?;
    let [oldest, newest] = [0, 4].map(|at| value[at..].first_chunk().copied().map(u32::from_le_bytes));
    let span = Span { oldest: oldest?, newest: newest? };
    (span.oldest <= span.newest).then_some(span)
}

impl Entry<'_> {
    /// Whether it is as it was written, in this segment.
    pub(super) fn is_intact(&self, segment: u32) -> bool {
        let (lengths, rest) = self.bytes.split_at(LENGTHS);
        let (stored, content) = rest.split_at(HEAD - LENGTHS);
        checksum(segment, self.offset, &[lengths, content]) == *stored
    }
}

/// Iterates over the entries of a frame, whose records begin at this offset of a segment.
pub(super) fn entries(records: &[u8], offset: u32) -> impl Iterator<Item = Result<Entry<'_>, Malformed>> {
    let (mut rest, mut offset) = (records, offset);
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let Some(entry) = read(rest, offset) else {
            rest = &[];
            return Some(Err(Malformed { offset }));
        };
        rest = &rest[entry.bytes.len()..];
        offset = offset.saturating_add(entry.length);
        Some(Ok(entry))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_read_as_they_were_written() {
        let mut bytes = Vec::new();
        let changes = [
            (Table::Broker, &b""[..], Change::Put(b"value")),
            (Table::Messages, b"0123456789abcdef", Change::Removed(Span { oldest: 3, newest: 5 })),
            (Table::Sessions, b"s", Change::Put(b"")),
        ];
        for (table, key, change) in changes {
            let offset = 100 + u32::try_from(bytes.len()).unwrap();
            append(&mut bytes, 9, offset, table, key, change).unwrap();
        }
        let found: Vec<_> = entries(&bytes, 100).map(Result::unwrap).collect();
        assert!(found.iter().map(|it| (it.table, it.key, it.change)).eq(changes));
        assert!(found.iter().all(|it| it.is_intact(9) && !it.is_intact(8)));
        let moved = entries(&bytes, 101).next().unwrap().unwrap();
        assert!(!moved.is_intact(9));
    }

    #[test]
    fn every_changed_bit_of_an_entry_is_noticed() {
        let mut bytes = Vec::new();
        append(&mut bytes, 1, 64, Table::Ids, b"0123456789abcdef", Change::Removed(Span { oldest: 1, newest: 1 }))
            .unwrap();
        append(&mut bytes, 1, 99, Table::Ids, b"key", Change::Put(b"value")).unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let is_noticed = entries(&damaged, 64).any(|entry| entry.is_ok_and(|it| it.is_intact(1)).eq(&false));
            assert!(is_noticed, "bit {bit}");
        }
    }

    #[test]
    fn a_key_that_is_too_long_is_refused() {
        let key = vec![0; 1 << 16];
        assert_eq!(append(&mut Vec::new(), 1, 0, Table::Ids, &key, Change::Put(b"")), None);
    }
}
