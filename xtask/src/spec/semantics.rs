//! The rules of `docs/semantics.md` and the legend of their families: the first cells of its tables.

/// A rule, as far as its place in the page is concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) id: String,
    /// The number of its table in the page.
    pub(super) table: usize,
}

/// What the page lists.
#[derive(Debug, Default)]
pub(super) struct Page {
    /// The families of the legend, in its order and with repetitions.
    pub(super) families: Vec<String>,
    /// The rules in the order of the page, with repetitions.
    pub(super) rules: Vec<Rule>,
}

impl Page {
    pub(super) fn read(text: &str) -> Self {
        let (mut page, mut table) = (Self::default(), 0);
        for line in text.lines() {
            match first_cell(line) {
                Some(cell) if is_id(cell) => page.rules.push(Rule { id: cell.into(), table }),
                Some(cell) if is_family(cell) => page.families.push(cell.into()),
                Some(_) => {}
                None => table += 1,
            }
        }
        page
    }
}

fn first_cell(line: &str) -> Option<&str> {
    let (cell, _) = line.trim().strip_prefix('|')?.split_once('|')?;
    Some(cell.trim())
}

/// One or two capital letters.
fn is_family(cell: &str) -> bool {
    matches!(cell.len(), 1 | 2) && cell.bytes().all(|letter| letter.is_ascii_uppercase())
}

/// A family, a hyphen, at least two digits, at most one small letter: `S-28`, `T-59a`, `HT-01`.
pub(crate) fn is_id(text: &str) -> bool {
    let Some((kind, number)) = text.split_once('-') else { return false };
    let digits = number.strip_suffix(|last: char| last.is_ascii_lowercase()).unwrap_or(number);
    is_family(kind) && digits.len() >= 2 && digits.bytes().all(|digit| digit.is_ascii_digit())
}

/// The family of an id.
pub(super) fn family(id: &str) -> &str {
    id.split_once('-').map_or(id, |(family, _)| family)
}

/// What ids of one family are sorted by: `T-59` before `T-59a`, and both before `T-100`.
pub(super) fn number(id: &str) -> (usize, &str) {
    let number = id.split_once('-').map_or(id, |(_, number)| number);
    (number.trim_end_matches(|last: char| last.is_ascii_lowercase()).len(), number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(text: &str) -> Vec<(String, usize)> {
        Page::read(text).rules.into_iter().map(|rule| (rule.id, rule.table)).collect()
    }

    #[test]
    fn the_first_cell_of_each_row_is_its_id() {
        let text = "| id | rule |\n|---|---|\n| S-28 | expiry counts, see S-30 |\n| T-59a | names |\nS-99 | no row\n";
        assert_eq!(ids(text), [("S-28".into(), 0), ("T-59a".into(), 0)]);
    }

    #[test]
    fn repetitions_are_kept_and_tables_are_told_apart() {
        assert_eq!(ids("| S-28 | a |\n\n| S-28 | b |\n"), [("S-28".into(), 0), ("S-28".into(), 1)]);
    }

    #[test]
    fn a_legend_lists_families_in_order() {
        let page =
            Page::read("| family | covers |\n|---|---|\n| S | locks |\n| B | bodies |\n| HT | HTTP |\n\n**A** is text");
        assert_eq!(page.families, ["S", "B", "HT"]);
    }

    #[test]
    fn ids_are_sorted_by_number_and_letter() {
        let mut ids = ["T-100", "T-59b", "T-59", "T-60", "T-59a"];
        ids.sort_by_key(|id| number(id));
        assert_eq!(ids, ["T-59", "T-59a", "T-59b", "T-60", "T-100"]);
    }

    #[test]
    fn malformed_ids_are_ignored() {
        for text in ["id", "---", "s-28", "S28", "S-2", "SSS-28", "S-28ab", "S-28A", "-28", "S-", "S-a", "É-28"] {
            assert!(!is_id(text), "{text}");
        }
    }
}
