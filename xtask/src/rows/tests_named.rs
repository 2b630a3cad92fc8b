//! The rows that the tests in a Rust file are named after.
//!
//! A name starts with the id in snake case (`s_28_lock_expiry_counts`), or with several (`s_71_s_72_failures_count`).
//! A test that is ignored counts for nothing, and so does one that calls nothing.

/// The ids of all rows that tests in this source are named after.
pub(super) fn row_ids(source: &str) -> Vec<String> {
    let mut ids = Vec::new();
    let mut item = Attributes::default();
    let mut lines = source.lines().map(str::trim);
    while let Some(line) = lines.next() {
        if item.read(line) || line.is_empty() || line.starts_with("//") {
            continue;
        }
        if item.test && !item.ignored && calls_something(line, lines.clone()) {
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

/// Whether the body of the function that begins at this line has a call or a macro: without one it can assert nothing.
fn calls_something<'s>(first: &'s str, rest: impl Iterator<Item = &'s str>) -> bool {
    let mut depth = 0_usize;
    let mut has_begun = false;
    for line in std::iter::once(first).chain(rest).filter(|line| !line.starts_with("//")) {
        // What stands before the body are the name and the type.
        let body = if has_begun { line } else { line.split_once('{').map_or("", |(_, body)| body) };
        if body.contains('(') || body.contains("!{") || body.contains("! {") {
            return true;
        }
        has_begun |= line.contains('{');
        depth = (depth + line.matches('{').count()).saturating_sub(line.matches('}').count());
        if has_begun && depth == 0 {
            return false;
        }
    }
    false
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
        let source = "#[test]\nfn s_28_lock_expiry_counts() { assert!(x) }\n\n#[tokio::test(start_paused = true)]\n/// Why.\nasync fn t_59a_names() {\n// Why.\nassert!(x);\n}";
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
        assert!(row_ids("#[test]\nfn other() { a() }\nfn s_28_helper() { a() }").is_empty());
    }

    #[test]
    fn an_ignored_test_counts_for_nothing() {
        assert!(row_ids("#[test]\n#[ignore = \"slow\"]\nfn s_28_x() { a() }").is_empty());
    }

    #[test]
    fn a_test_that_calls_nothing_counts_for_nothing() {
        let one = "#[test]\nfn s_28_x() ";
        for body in ["{}", "{\n}", "{\n// assert!(x)\n}\nfn other() { assert!(x) }", "{\nlet x = 5;\n}"] {
            assert!(row_ids(&format!("{one}{body}")).is_empty(), "{body}");
        }
        for body in ["{ a() }", "{\nfor x in Y {\n}\nassert!(x);\n}", "{\nwhere_it_is! { a }\n}"] {
            assert_eq!(row_ids(&format!("{one}{body}")), ["S-28"], "{body}");
        }
    }

    #[test]
    fn attributes_may_span_lines() {
        let source = "#[tokio::test(\n    flavor = \"multi_thread\",\n)] // why\npub async fn s_28_x() { a() }";
        assert_eq!(row_ids(source), ["S-28"]);
    }

    #[test]
    fn what_does_not_start_with_an_id_names_none() {
        for name in ["settle_28", "s_2_x", "s_x_28", "s28_x", "", "_"] {
            assert!(leading_ids(name).is_empty(), "{name}");
        }
    }
}
