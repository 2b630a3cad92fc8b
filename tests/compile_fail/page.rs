//! The table of `docs/compile-errors.md`: each case, and the first line of what the compiler says.

use std::{fmt::Write as _, fs, path::Path};

const PAGE: &str = "../../docs/compile-errors.md";
const HEAD: &str = "| mistake | first line of the compiler | what to do |\n|---|---|---|\n";
/// A type is cut after this many characters.
const LONGEST: usize = 44;

/// Writes the table of the page again.
pub(crate) fn write() {
    let page = fs::read_to_string(PAGE).expect("the page exists");
    fs::write(PAGE, page.replace(rows(&page), &table())).expect("the page can be written");
}

#[test]
fn the_page_has_the_first_line_of_every_error() {
    let (page, table) = (fs::read_to_string(PAGE).expect("the page exists"), table());
    assert!(rows(&page) == table, "docs/compile-errors.md is out of date: it should have\n\n{HEAD}{table}");
}

/// The rows of the page's table.
fn rows(page: &str) -> &str {
    let (_, rest) = page.split_once(HEAD).expect("the page has the table");
    rest.split_once("\n\n").map_or(rest, |(rows, _)| &rest[..=rows.len()])
}

fn table() -> String {
    let entries = fs::read_dir("cases").expect("the folder exists").map(|entry| entry.expect("it can be read").path());
    let mut cases: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|extension| extension == "rs")).collect();
    cases.sort();
    let mut table = String::new();
    for case in cases {
        let (mistake, fix) = said(&case);
        let error = fs::read_to_string(case.with_extension("stderr")).expect("a case has its error");
        let error = error.lines().next().expect("it has a line");
        writeln!(table, "| {mistake} | {} | {} |", cell(&short(error)), cell(&fix)).expect("a string takes all");
    }
    table
}

/// The first line of the documentation of a case is the mistake. The others are what to do, where the error does not say it.
fn said(case: &Path) -> (String, String) {
    let text = fs::read_to_string(case).expect("it can be read");
    let mut lines = text.lines().map_while(|line| line.strip_prefix("//!")).map(str::trim);
    let mistake = lines.next().unwrap_or_else(|| panic!("{}: no line `//! ` with the mistake", case.display()));
    (mistake.trim_end_matches('.').to_owned(), lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" "))
}

/// The line with long types cut.
fn short(line: &str) -> String {
    let parts = line.split('`').enumerate().map(|(index, part)| match part.char_indices().nth(LONGEST) {
        Some((end, _)) if index % 2 == 1 && part.contains("::") => format!("{}...", &part[..end]),
        _ => part.to_owned(),
    });
    parts.collect::<Vec<_>>().join("`")
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}
