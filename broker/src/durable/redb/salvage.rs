use std::path::Path;

use super::{
    super::{
        StorageError,
        journal::{Table, Visit},
    },
    checksum::verified,
    format::{META, TOTALS},
    head::Head,
    pages::Walk,
    place,
    storage::Storage,
    totals::Totals,
};

/// The result of reading a damaged store.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Salvaged {
    /// Records that are good.
    pub(crate) records: u64,
    /// How many there should be, if that can still be read.
    pub(crate) expected: Option<u64>,
    /// The damages, and where they are: the first [`MOST`](Self::MOST).
    pub(crate) damages: Vec<String>,
}

impl Salvaged {
    pub(crate) const MOST: usize = 10_000;

    fn damaged(&mut self, what: impl FnOnce() -> String) {
        if self.damages.len() < Self::MOST {
            self.damages.push(what());
        }
    }
}

/// Passes every good record to `visit`, table after table, and writes nothing. It skips what is damaged.
///
/// Where a page is damaged that points to others, a record may appear that was changed or removed since, or twice.
pub(crate) fn salvage(folder: &Path, visit: &mut Visit<'_>) -> Result<Salvaged, StorageError> {
    salvage_from(&place::read_only(folder)?, visit)
}

pub(super) fn salvage_from(storage: &dyn Storage, visit: &mut Visit<'_>) -> Result<Salvaged, StorageError> {
    let mut salvaged = Salvaged::default();
    let (head, is_good) = Head::read_any(storage)?;
    if !is_good {
        salvaged.damaged(|| "offset 0: the head is damaged".into());
    }
    let mut slots = head.slots();
    if !is_good || slots.is_empty() {
        slots = head.newest_first();
    }
    let mut walk = Walk::lenient(storage, &head)?;
    let mut tables = Vec::new();
    for root in slots.iter().filter_map(|slot| slot.tables) {
        tables = walk.tables(root)?;
        if !tables.is_empty() {
            break;
        }
    }
    let root = |name: &str| tables.iter().find(|(table, _)| table == name.as_bytes()).map(|(_, root)| root);
    if let Some(meta) = root(META)
        && let Some(root) = meta.root
    {
        walk.tree(root, meta.widths, &mut |name, stored| {
            if name == TOTALS.as_bytes() {
                let totals = verified(META, name, stored).ok().and_then(Totals::decode);
                salvaged.expected = totals.map(|totals| Table::ALL.iter().map(|table| totals.of(*table).records).sum());
            }
            Ok(())
        })?;
    }
    for table in Table::ALL {
        let Some(tree) = root(table.name()) else {
            salvaged.damaged(|| format!("table {} is gone", table.name()));
            continue;
        };
        let Some(root) = tree.root else { continue };
        let mut records = 0;
        walk.tree(root, tree.widths, &mut |key, stored| match verified(table.name(), key, stored) {
            Ok(value) => {
                records += 1;
                visit(table, key, value)
            }
            Err(error) => {
                salvaged.damaged(|| error.detail().to_owned());
                Ok(())
            }
        })?;
        salvaged.records += records;
    }
    for (offset, what) in walk.damages {
        salvaged.damaged(|| format!("offset {offset}: {what}"));
    }
    Ok(salvaged)
}
