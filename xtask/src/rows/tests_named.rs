//! The rows that the tests in a Rust file are named after.
//!
//! A name starts with the id in snake case (`s_28_lock_expiry_counts`), or with several (`s_71_s_72_failures_count`).
//! A test that is ignored counts for nothing.

/// The ids of all rows that tests in this source are named after.
pub(super) fn row_ids(source: &str) -> Vec<String> {
    let mut ids = Vec::new();
    let mut item = Attributes::default();
    for line in source.lines().map(str::trim) {
        if item.read(line) || line.is_empty() || line.starts_with("//") {
            continue;
        }
        if item.test && !item.ignored {
            ids.extend(function_name(line).into_iter().flat_map(leading_ids));
        }
        item = Attributes::default();
    }
    ids
}

/// What the attributes in front of an item have said so far.
#[derive(Default)]
struct Attributes {
    test: bool,
    ignored: bool,
    /// Brackets that the lines so far have left open.
    open: usize,
}

impl Attributes {
    /// Takes the line in if it belongs to an attribute.
    fn read(&mut self, line: &str) -> bool {
        if let Some(attribute) = line.strip_prefix("#[") {
            let path = attribute.split(['(', ']', '=', ' ']).next().unwrap_or_default();
            self.test |= path.rsplit("::").next() == Some("test");
            self.ignored |= path == "ignore";
        } else if self.open == 0 {
            return false;
        }
        let brackets = |wanted| line.matches(wanted).count();
        self.open = (self.open + brackets('[')).saturating_sub(brackets(']'));
        true
    }
}

fn function_name(line: &str) -> Option<&str> {
    let before_name = line.strip_prefix("fn ").or_else(|| line.split_once(" fn ").map(|(_, rest)| rest))?;
    before_name.split(['(', '<']).next().map(str::trim)
}

fn leading_ids(name: &str) -> Vec<String> {
    let mut words = name.split('_');
    let mut ids = Vec::new();
    while let (Some(kind), Some(number)) = (words.next(), words.next()) {
        let id = format!("{}-{number}", kind.to_uppercase());
        if kind.len() != 1 || !super::semantics::is_id(&id) {
            break;
        }
        ids.push(id);
    }
    ids
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_names_its_row() {
        let source = "#[test]\nfn s_28_lock_expiry_counts() {}\n\n#[tokio::test(start_paused = true)]\n/// Why.\nasync fn t_59a_names() {}";
        assert_eq!(row_ids(source), ["S-28", "T-59a"]);
    }

    #[test]
    fn a_test_can_name_several_rows() {
        assert_eq!(leading_ids("s_71_s_72_failures_count"), ["S-71", "S-72"]);
        assert_eq!(leading_ids("s_71"), ["S-71"]);
    }

    #[test]
    fn a_function_that_is_no_test_counts_for_nothing() {
        let source = "fn s_28_helper() {}\n#[cfg(test)]\nmod tests {\n#[inline]\nfn s_29_helper() {}\n}";
        assert!(row_ids(source).is_empty());
    }

    #[test]
    fn an_attribute_belongs_to_the_next_item_only() {
        assert!(row_ids("#[test]\nfn other() {}\nfn s_28_helper() {}").is_empty());
    }

    #[test]
    fn an_ignored_test_counts_for_nothing() {
        assert!(row_ids("#[test]\n#[ignore = \"slow\"]\nfn s_28_x() {}").is_empty());
    }

    #[test]
    fn attributes_may_span_lines() {
        let source = "#[tokio::test(\n    flavor = \"multi_thread\",\n)] // why\npub async fn s_28_x() {}";
        assert_eq!(row_ids(source), ["S-28"]);
    }

    #[test]
    fn what_does_not_start_with_an_id_names_none() {
        for name in ["settle_28", "s_2_x", "s_x_28", "s28_x", "", "_"] {
            assert!(leading_ids(name).is_empty(), "{name}");
        }
    }
}
