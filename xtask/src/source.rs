//! The rules and the attacks that a Rust file names: `/// Rules: S-28, S-29.` and `/// Attacks: 7, 12.` in the doc comment of a
//! test, or of an item that tests use.
//!
//! Entries of a table name theirs in a plain comment. A test that is ignored counts for nothing, and so does one that calls
//! nothing.

use crate::error::Error;
use crate::spec::is_id;
use crate::workspace::{read, root, rust_files};

/// What one file names.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Source {
    /// The ids of its tests, one for each test that names it.
    pub(crate) tested: Vec<String>,
    /// The ids of all `Rules:` lines.
    pub(crate) named: Vec<String>,
    /// Lines, counted from 1, that begin as a `Rules:` line and are not one.
    pub(crate) malformed: Vec<usize>,
    /// The names of its tests, but for those that are ignored or call nothing.
    pub(crate) tests: Vec<String>,
    /// The numbers of attacks, each with the name of a test that names it.
    pub(crate) attacks: Vec<(u32, String)>,
    /// Lines, counted from 1, that begin as an `Attacks:` line and are not one.
    pub(crate) malformed_attacks: Vec<usize>,
    /// Tests whose names begin with an id.
    pub(crate) misnamed: Vec<String>,
}

/// What each file of the workspace names, by its path, in the order of the paths.
pub(crate) fn all() -> Result<Vec<(String, Source)>, Error> {
    let mut files = rust_files()?;
    files.sort();
    let source = |path: std::path::PathBuf| {
        let file = path.strip_prefix(root()).unwrap_or(&path).display().to_string();
        Ok((file, Source::read(&read(&path)?)))
    };
    files.into_iter().map(source).collect()
}

impl Source {
    pub(crate) fn read(source: &str) -> Self {
        let (mut found, mut item) = (Self::default(), Item::default());
        let mut lines = source.lines().map(str::trim).enumerate();
        while let Some((number, line)) = lines.next() {
            if let Some(rules) = labelled(line, "Rules:") {
                match listed(rules, |id| is_id(id).then(|| id.to_owned())) {
                    Some(ids) => item.rules.extend(ids),
                    None => found.malformed.push(number + 1),
                }
                continue;
            }
            if let Some(attacks) = labelled(line, "Attacks:") {
                match listed(attacks, |number| number.parse::<u32>().ok()) {
                    Some(numbers) => item.attacks.extend(numbers),
                    None => found.malformed_attacks.push(number + 1),
                }
                continue;
            }
            if item.read(line) || line.is_empty() || line.starts_with("//") {
                continue;
            }
            found.named.extend(item.rules.iter().cloned());
            if item.test {
                let name = function_name(line).unwrap_or_default();
                found.misnamed.extend(begins_with_id(name).then(|| name.to_owned()));
                if !item.ignored && calls_something(line, lines.clone().map(|(_, line)| line)) {
                    found.tested.append(&mut item.rules);
                    found.attacks.extend(item.attacks.drain(..).map(|attack| (attack, name.to_owned())));
                    found.tests.push(name.to_owned());
                }
            }
            item = Item::default();
        }
        found
    }
}

/// What follows a label in the line of a comment that begins so.
fn labelled<'l>(line: &'l str, label: &str) -> Option<&'l str> {
    let comment = line.strip_prefix("///").or_else(|| line.strip_prefix("//"))?;
    comment.trim_start().strip_prefix(label)
}

/// Reads ` S-28, S-29.`.
fn listed<T>(text: &str, one: impl Fn(&str) -> Option<T>) -> Option<Vec<T>> {
    text.strip_prefix(' ')?.strip_suffix('.')?.split(", ").map(one).collect()
}

/// What comments and attributes in front of an item have listed so far.
#[derive(Default)]
struct Item {
    rules: Vec<String>,
    attacks: Vec<u32>,
    test: bool,
    ignored: bool,
    /// Brackets that the lines so far have left open.
    open: usize,
}

impl Item {
    /// Reads the line if it belongs to an attribute.
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

/// Whether a name begins as `s_28_` does.
fn begins_with_id(name: &str) -> bool {
    let mut words = name.split('_');
    let (Some(kind), Some(number), Some(_)) = (words.next(), words.next(), words.next()) else { return false };
    // Two letters may be a word: `to_32_bits`.
    kind.len() == 1 && is_id(&format!("{}-{number}", kind.to_uppercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tested(source: &str) -> Vec<String> {
        Source::read(source).tested
    }

    #[test]
    fn a_test_names_its_rules() {
        let source = "/// Rules: S-28, S-29.\n/// Why.\n#[test]\nfn a() { assert!(x) }\n\n#[tokio::test(start_paused = true)]\n/// Rules: T-59a.\nasync fn b() {\n// Why.\nassert!(x);\n}";
        assert_eq!(tested(source), ["S-28", "S-29", "T-59a"]);
    }

    #[test]
    fn each_test_counts() {
        let one = "/// Rules: S-28.\n#[test]\nfn a() { b() }\n";
        assert_eq!(tested(&one.repeat(2)), ["S-28", "S-28"]);
    }

    #[test]
    fn other_items_name_rules_and_count_for_nothing() {
        let source = Source::read("/// Rules: S-28.\nfn helper() { a() }\nlist! {\n// Rules: S-29.\nentry,\n}");
        assert_eq!((source.tested.len(), source.named), (0, vec!["S-28".into(), "S-29".into()]));
    }

    #[test]
    fn comments_and_attributes_belong_to_the_next_item_only() {
        assert!(tested("/// Rules: S-28.\nstruct A;\n#[test]\nfn other() { a() }").is_empty());
        assert!(tested("#[test]\nfn other() { a() }\n/// Rules: S-28.\nfn helper() { a() }").is_empty());
    }

    #[test]
    fn a_malformed_line_is_found() {
        for line in ["/// Rules: S-28", "/// Rules: S-28 and more.", "/// Rules:", "// Rules: s-28.", "/// Rules: S-2."]
        {
            let source = Source::read(&format!("\n    {line}\n#[test]\nfn a() {{ b() }}"));
            assert_eq!((source.malformed, source.named.len()), (vec![2], 0), "{line}");
        }
    }

    #[test]
    fn an_ignored_test_counts_for_nothing() {
        assert!(tested("/// Rules: S-28.\n#[test]\n#[ignore = \"slow\"]\nfn a() { b() }").is_empty());
    }

    #[test]
    fn a_test_that_calls_nothing_counts_for_nothing() {
        let one = "/// Rules: S-28.\n#[test]\nfn a() ";
        for body in ["{}", "{\n}", "{\n// assert!(x)\n}\nfn other() { assert!(x) }", "{\nlet x = 5;\n}"] {
            assert!(tested(&format!("{one}{body}")).is_empty(), "{body}");
        }
        for body in ["{ a() }", "{\nfor x in Y {\n}\nassert!(x);\n}", "{\nwhere_it_is! { a }\n}"] {
            assert_eq!(tested(&format!("{one}{body}")), ["S-28"], "{body}");
        }
    }

    #[test]
    fn a_test_names_attacks_beside_its_rules() {
        let source = Source::read(
            "/// Rules: S-28.\n/// Attacks: 7, 12.\n#[test]\nfn a() { b() }\n/// Attacks: 3.\nfn b() { c() }\n/// Attacks: 4.\n#[test]\n#[ignore]\nfn d() { b() }\n/// Attacks: 7.\n#[test]\nfn e() { b() }",
        );
        assert_eq!(source.attacks, [(7, "a".into()), (12, "a".into()), (7, "e".into())]);
        assert_eq!((source.tested, source.malformed_attacks), (vec!["S-28".into()], vec![]));
        for line in ["/// Attacks: 7", "/// Attacks: A-07.", "// Attacks:", "/// Attacks: 7 and more."] {
            let source = Source::read(&format!("{line}\n#[test]\nfn a() {{ b() }}"));
            assert_eq!((source.attacks, source.malformed_attacks), (vec![], vec![1]), "{line}");
        }
    }

    #[test]
    fn tests_are_listed_by_name() {
        let source = "#[test]\nfn a() { b() }\n#[tokio::test]\nasync fn c() { b() }\nfn b() { d() }\n#[test]\n#[ignore]\nfn e() { b() }";
        assert_eq!(Source::read(source).tests, ["a", "c"]);
    }

    #[test]
    fn attributes_may_span_lines() {
        let source =
            "/// Rules: S-28.\n#[tokio::test(\n    flavor = \"multi_thread\",\n)] // why\npub async fn a() { b() }";
        assert_eq!(tested(source), ["S-28"]);
    }

    #[test]
    fn a_test_name_without_an_id_is_required() {
        let source = |name| Source::read(&format!("#[test]\nfn {name}() {{ a() }}")).misnamed;
        for name in ["s_28_x", "t_59a_x", "s_71_s_72_x"] {
            assert_eq!(source(name), [name]);
        }
        for name in ["settle_28_x", "s_2_x", "s_x_28", "s28_x", "_", "x_28"] {
            assert!(source(name).is_empty(), "{name}");
        }
    }
}
