use std::collections::BTreeMap;

use super::super::journal::Table;

/// Where the value of each key is.
#[derive(Debug, Default)]
pub(super) struct Index {
    tables: [Keys; Table::ALL.len()],
}

/// Where an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) segment: u32,
    pub(super) offset: u32,
    pub(super) length: u32,
    /// Earlier values of the key are in this segment, or in later ones.
    pub(super) oldest: u32,
}

/// The keys of one table. Most keys are two numbers, of which the second ones are near each other.
#[derive(Debug, Default)]
struct Keys {
    /// By the upper bits of the key.
    pages: BTreeMap<u128, Page>,
    /// Keys of other lengths.
    others: BTreeMap<Box<[u8]>, Place>,
    records: u64,
}

/// The lower bits of each key, in order, and its place.
type Page = Vec<(u8, Place)>;

/// How many bits of a key are the lower ones.
const BITS: u32 = 7;

/// Splits a key of two numbers.
fn split(key: &[u8]) -> Option<(u128, u8)> {
    let number = u128::from_be_bytes(key.try_into().ok()?);
    let low = u8::try_from(number & ((1 << BITS) - 1)).ok()?;
    Some((number >> BITS, low))
}

impl Index {
    pub(super) fn get(&self, table: Table, key: &[u8]) -> Option<Place> {
        let keys = &self.tables[table as usize];
        match split(key) {
            Some((page, low)) => {
                let page = keys.pages.get(&page)?;
                page.binary_search_by_key(&low, |(low, _)| *low).ok().map(|at| page[at].1)
            }
            None => keys.others.get(key).copied(),
        }
    }

    /// Sets the place of a key to what `place` returns for the one before, and returns that one.
    pub(super) fn set(
        &mut self,
        table: Table,
        key: &[u8],
        place: impl FnOnce(Option<Place>) -> Place,
    ) -> Option<Place> {
        let keys = &mut self.tables[table as usize];
        let before = if let Some((page, low)) = split(key) {
            let page = keys.pages.entry(page).or_default();
            match page.binary_search_by_key(&low, |(low, _)| *low) {
                Ok(at) => {
                    let before = page[at].1;
                    page[at].1 = place(Some(before));
                    Some(before)
                }
                Err(at) => {
                    page.insert(at, (low, place(None)));
                    None
                }
            }
        } else {
            let before = keys.others.get(key).copied();
            keys.others.insert(key.into(), place(before))
        };
        keys.records += u64::from(before.is_none());
        before
    }

    pub(super) fn remove(&mut self, table: Table, key: &[u8]) -> Option<Place> {
        let keys = &mut self.tables[table as usize];
        let before = match split(key) {
            Some((number, low)) => {
                let page = keys.pages.get_mut(&number)?;
                let at = page.binary_search_by_key(&low, |(low, _)| *low).ok()?;
                let (_, place) = page.remove(at);
                if page.is_empty() {
                    keys.pages.remove(&number);
                } else if page.len() * 4 <= page.capacity() {
                    page.shrink_to(page.len() * 2);
                }
                place
            }
            None => keys.others.remove(key)?,
        };
        keys.records -= 1;
        Some(before)
    }

    pub(super) fn records(&self) -> u64 {
        self.tables.iter().map(|keys| keys.records).sum()
    }

    /// Iterates over a table by ascending key.
    pub(super) fn iter(&self, table: Table) -> impl Iterator<Item = (Key<'_>, Place)> {
        let keys = &self.tables[table as usize];
        let pages = keys.pages.iter().flat_map(|(page, entries)| {
            let key = move |low: u8| Key::Numbers((page << BITS | u128::from(low)).to_be_bytes());
            entries.iter().map(move |(low, place)| (key(*low), *place))
        });
        let others = keys.others.iter().map(|(key, place)| (Key::Other(key), *place));
        let (mut pages, mut others) = (pages.peekable(), others.peekable());
        std::iter::from_fn(move || match (pages.peek(), others.peek()) {
            (Some((page, _)), Some((other, _))) if other.bytes() < page.bytes() => others.next(),
            (None, _) => others.next(),
            _ => pages.next(),
        })
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Key<'k> {
    Numbers([u8; 16]),
    Other(&'k [u8]),
}

impl Key<'_> {
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Numbers(key) => key,
            Self::Other(key) => key,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::durable::journal::key;

    fn place(number: u32) -> Place {
        Place { segment: number, offset: number, length: number, oldest: number }
    }

    #[test]
    fn an_index_is_a_map_in_order() {
        let mut rng = fastrand::Rng::with_seed(1);
        let (mut index, mut map) = (Index::default(), BTreeMap::new());
        for number in 0..20_000 {
            let key = match rng.u8(..4) {
                0 => rng.u8(..).to_string().into_bytes(),
                _ => key(rng.u64(..3), rng.u64(..2_000)).to_vec(),
            };
            if rng.u8(..5) < 2 {
                assert_eq!(index.remove(Table::Messages, &key), map.remove(&key));
            } else {
                let before = map.insert(key.clone(), place(number));
                assert_eq!(
                    index.set(Table::Messages, &key, |seen| {
                        assert_eq!(seen, before);
                        place(number)
                    }),
                    before
                );
            }
            assert_eq!(index.get(Table::Messages, &key), map.get(&key).copied());
        }
        assert!(index.iter(Table::Messages).map(|(key, place)| (key.bytes().to_vec(), place)).eq(map.clone()));
        assert_eq!(index.records(), map.len() as u64);
        assert_eq!(index.iter(Table::Ids).count(), 0);
    }

    #[test]
    fn an_entry_of_many_takes_little_memory() {
        let mut index = Index::default();
        for number in 0..100_000 {
            index.set(Table::Messages, &key(1, number), |_| place(1));
        }
        let keys = &index.tables[Table::Messages as usize];
        let bytes: usize = keys.pages.values().map(|page| page.capacity() * size_of::<(u8, Place)>()).sum();
        assert!(bytes / 100_000 <= 21, "{bytes} bytes");
        for number in (0..100_000).filter(|number| number % 100 > 0) {
            index.remove(Table::Messages, &key(1, number));
        }
        let keys = &index.tables[Table::Messages as usize];
        let capacity: usize = keys.pages.values().map(Vec::capacity).sum();
        assert!(capacity <= 8_000, "{capacity} of 1,000");
    }
}
