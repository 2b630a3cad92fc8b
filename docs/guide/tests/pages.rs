//! The pages of the guide as text: chapters, links and pictures.
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// The chapters, by the names of their files.
fn chapters() -> BTreeSet<String> {
    let names = fs::read_dir(source()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let is_page = |name: &String| Path::new(name).extension().is_some_and(|extension| extension == "md");
    names.filter(|name| is_page(name) && name != "SUMMARY.md").collect()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The text outside of fenced blocks.
fn prose(text: &str) -> String {
    let mut is_code = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            lines.push(line);
        }
    }
    lines.join("\n")
}

/// The targets of links and images.
fn links(text: &str) -> Vec<String> {
    let prose = prose(text);
    prose.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0.to_owned())).collect()
}

/// The anchors of a page, as GitHub and mdBook make them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text);
    let headings =
        headings.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    headings
        .map(|heading| {
            let kept = heading.chars().filter(|char| char.is_alphanumeric() || matches!(char, ' ' | '-' | '_'));
            kept.map(|char| if char == ' ' { '-' } else { char.to_ascii_lowercase() }).collect()
        })
        .collect()
}

#[test]
fn the_summary_and_the_doctests_have_every_chapter() {
    let (summary, doctests) = (links(&read(&source().join("SUMMARY.md"))), include_str!("../lib.rs"));
    assert_eq!(summary.iter().cloned().collect::<BTreeSet<_>>(), chapters());
    assert_eq!(summary.len(), chapters().len(), "a chapter is listed twice");
    for chapter in chapters() {
        assert!(
            doctests.contains(&format!("include_str!(\"src/{chapter}\")")),
            "the blocks of {chapter} are not compiled"
        );
    }
}

#[test]
fn every_link_leads_to_a_file_and_every_anchor_to_a_heading() {
    let mut broken = Vec::new();
    for chapter in chapters() {
        let text = read(&source().join(&chapter));
        for link in links(&text) {
            if link.starts_with("https://") {
                continue;
            }
            let (path, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = if path.is_empty() { source().join(&chapter) } else { source().join(path) };
            let is_there = target.is_file() && (anchor.is_empty() || anchors(&read(&target)).contains(anchor));
            if !is_there {
                broken.push(format!("{chapter}: {link}"));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn every_rust_block_is_compiled() {
    for chapter in chapters() {
        for line in read(&source().join(&chapter)).lines().filter(|line| line.starts_with("```rust")) {
            assert!(matches!(line, "```rust" | "```rust,no_run"), "{chapter}: {line}");
        }
    }
}

/// The pages are also read in the repository, where the lines that rustdoc hides are shown.
#[test]
fn no_rust_block_has_hidden_lines() {
    let root = source().join("../../..");
    let reference = fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let reference = reference.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    let pages = chapters().into_iter().map(|chapter| source().join(chapter));
    let mut hidden = Vec::new();
    for page in pages.chain(reference).chain([root.join("README.md"), root.join("server/README.md")]) {
        let (text, mut is_rust) = (read(&page), false);
        for line in text.lines() {
            if let Some(language) = line.trim_start().strip_prefix("```") {
                is_rust = !is_rust && language.starts_with("rust");
            } else if is_rust && (line == "#" || line.starts_with("# ")) {
                hidden.push(format!("{}: {line}", page.display()));
            }
        }
    }
    assert!(hidden.is_empty(), "{hidden:#?}");
}

/// A picture has the labels and the arrows of its text. `pictures/render` makes it.
#[test]
fn the_pictures_are_those_of_their_texts() {
    let texts = fs::read_dir(source().join("../pictures")).unwrap().map(|entry| entry.unwrap().path());
    let texts: Vec<_> = texts.filter(|path| path.extension().is_some_and(|extension| extension == "dot")).collect();
    assert_eq!(texts.len(), 2);
    for path in texts {
        let (text, picture) = (read(&path), source().join(path.file_stem().unwrap()).with_extension("svg"));
        let drawn = read(&picture).replace("&#45;", "-");
        let labels = text.split("label=\"").skip(1).filter_map(|rest| rest.split('"').next());
        for line in labels.flat_map(|label| label.split("\\n")) {
            assert!(drawn.contains(&format!(">{line}</text>")), "{} lacks `{line}`", picture.display());
        }
        assert_eq!(drawn.matches("class=\"edge\"").count(), text.matches(" -> ").count(), "{}", picture.display());
        assert!(drawn.contains("prefers-color-scheme: dark"), "{}", picture.display());
    }
}
