//! The capabilities of each transport, as docs/conformance.md has them.

use std::collections::{BTreeMap, BTreeSet};

/// Which transports have which capabilities.
#[derive(Debug, Default)]
pub(super) struct Levels {
    transports: BTreeMap<String, BTreeSet<String>>,
}

impl Levels {
    /// Reads the table whose first column is `id`.
    pub(super) fn read(page: &str) -> Self {
        let mut levels = Self::default();
        let mut rows = page.lines().filter(|line| line.starts_with('|')).map(cells);
        let Some(heads) = rows.find(|row| row.first() == Some(&"id")) else { return levels };
        for row in rows.take_while(|row| row.len() == heads.len()) {
            for (head, cell) in heads.iter().zip(&row).skip(2) {
                let has = levels.transports.entry((*head).to_owned()).or_default();
                if cell.starts_with("native") || cell.starts_with("emulated") {
                    has.insert(row[0].to_owned());
                }
            }
        }
        levels
    }

    pub(super) fn lists(&self, transport: &str) -> bool {
        self.transports.contains_key(transport)
    }

    /// Whether a transport has the capability of this id, such as `K-04`.
    pub(super) fn has(&self, transport: &str, id: &str) -> bool {
        self.transports.get(transport).is_some_and(|has| has.contains(id))
    }
}

fn cells(line: &str) -> Vec<&str> {
    line.trim().trim_matches('|').split('|').map(str::trim).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_levels() {
        let page = "| a | b |\n|---|---|\n\n| id | capability | x | y |\n| --- | --- | --- | --- |\n| K-01 | a | native 1/1 | unsupported, tried 1 |\n| K-02 | b | unsupported, not tested | emulated 2/2 |\n\n| transport | why |\n";
        let levels = Levels::read(page);
        assert!(levels.has("x", "K-01") && !levels.has("y", "K-01"));
        assert!(!levels.has("x", "K-02") && levels.has("y", "K-02"));
        assert!(levels.lists("x") && !levels.lists("z") && !levels.has("z", "K-01"));
    }
}
