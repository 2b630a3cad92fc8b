//! The ids of the rows in `docs/semantics.md`: the first cells of its tables.

/// The ids in the order of the file, with repetitions.
pub(super) fn row_ids(text: &str) -> Vec<String> {
    text.lines().filter_map(first_cell).filter(|cell| is_id(cell)).map(String::from).collect()
}

fn first_cell(line: &str) -> Option<&str> {
    let (cell, _) = line.trim().strip_prefix('|')?.split_once('|')?;
    Some(cell.trim())
}

/// One capital letter, a hyphen, at least two digits, at most one small letter: `S-28`, `T-59a`.
pub(super) fn is_id(text: &str) -> bool {
    let Some((kind, number)) = text.split_once('-') else { return false };
    let digits = number.strip_suffix(|last: char| last.is_ascii_lowercase()).unwrap_or(number);
    kind.len() == 1
        && kind.bytes().all(|letter| letter.is_ascii_uppercase())
        && digits.len() >= 2
        && digits.bytes().all(|digit| digit.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_cell_of_each_row_is_its_id() {
        let text = "# Rows\n\n| id | rule |\n|---|---|\n| S-28 | expiry counts, see S-30 |\n| T-59a | names |\n\nS-99 | no row\n";
        assert_eq!(row_ids(text), ["S-28", "T-59a"]);
    }

    #[test]
    fn repetitions_are_kept() {
        assert_eq!(row_ids("| S-28 | a |\n| S-28 | b |\n"), ["S-28", "S-28"]);
    }

    #[test]
    fn what_only_looks_like_an_id_is_passed_over() {
        for text in ["id", "---", "s-28", "S28", "S-2", "SS-28", "S-28ab", "S-28A", "-28", "S-", "S-a", "É-28"] {
            assert!(!is_id(text), "{text}");
        }
    }
}
