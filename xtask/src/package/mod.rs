//! `cargo xtask package`: the crates that are published, as the registry gets them.
//!
//! First the manifests and the lists of files, which takes seconds. Then each crate is built from its archive, and a crate
//! outside of the workspace from all archives together.

pub(crate) mod manifest;
mod needs;
mod outside;

use clap::Args;
use serde_json::{Value, json};

use crate::error::Error;
use crate::options::Output;
use crate::workspace::{cargo, metadata, output, read, run as run_command};
use manifest::{Manifest, published};

/// The page with the table of crates.
const VERSIONS: &str = "docs/versions-and-stability.md";

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Check the manifests and the lists of files only
    #[arg(long)]
    quick: bool,
    /// Build only the crate that depends on all archives, and not each crate alone
    #[arg(long, conflicts_with = "quick")]
    together: bool,
    #[command(flatten)]
    output: Output,
}

pub(crate) fn run(options: &Options) -> Result<(), Error> {
    let metadata = metadata()?;
    let published = published(&metadata);
    let mut problems = manifest::problems(&metadata);
    problems.extend(needs::problems()?);
    problems.extend(without_row(&published, &read(VERSIONS)?));
    for package in &published {
        let listed = output(&mut cargo(["package", "--list", "--quiet", "--allow-dirty", "--package", &package.name]))?;
        problems.extend(wrong_files(&package.name, &listed));
    }
    if !problems.is_empty() {
        return Err(Error::Package(problems));
    }
    if !options.quick {
        build(&published, &metadata, options.together)?;
    }
    let names: Vec<_> = published.iter().map(|package| &*package.name).collect();
    if options.output.json {
        println!("{}", json!({ "published": names, "built": !options.quick }));
    } else {
        let built = match options {
            Options { quick: true, .. } => "the manifests and files are complete",
            Options { together: true, .. } => "the archives build together",
            _ => "each builds from its archive, and all build together",
        };
        println!("{} crates, {built}; in the order of their publication:\n{}", names.len(), names.join(" "));
    }
    Ok(())
}

/// The crates that the table of published crates does not have.
fn without_row(published: &[Manifest], page: &str) -> Vec<String> {
    let listed: Vec<&str> = page.lines().filter(|line| line.contains("| yes |")).collect();
    let has_row = |name: &str| listed.iter().any(|line| line.contains(&format!("`{name}`")));
    let missing = published.iter().filter(|package| !has_row(&package.name));
    missing.map(|package| format!("{}: {VERSIONS} has no row for it", package.name)).collect()
}

/// What is missing in an archive with these files, and what should not be in it.
fn wrong_files(name: &str, listed: &str) -> Vec<String> {
    let has = |file: &str| listed.lines().any(|line| line == file);
    let needed = ["Cargo.toml", "README.md", "LICENSE-APACHE", "LICENSE-MIT", "src/lib.rs"];
    let missing = needed.into_iter().filter(|file| !has(file)).map(|file| format!("{name}: the archive lacks {file}"));
    let is_unwanted =
        |line: &&str| ["tests/", "benches/", "docs/", "target/"].iter().any(|folder| line.starts_with(folder));
    let unwanted = listed.lines().filter(is_unwanted).map(|line| format!("{name}: the archive has {line}"));
    missing.chain(unwanted).collect()
}

/// Builds each crate from its archive, unless only `together`, and a crate that depends on all of them.
fn build(published: &[Manifest], metadata: &Value, together: bool) -> Result<(), Error> {
    let mut command = cargo(["package", "--allow-dirty", "--quiet"]);
    command.args(together.then_some("--no-verify"));
    run_command(command.args(published.iter().flat_map(|package| ["--package", &package.name])))?;
    outside::run(published, metadata)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_published_crate_needs_a_row_that_says_so() {
        let crates = ["consign", "consign-core"].map(|name| Manifest {
            name: name.into(),
            version: "0.1.0".into(),
            features: Vec::new(),
            is_macro: false,
        });
        let page = "| `consign` | yes | applications |\n| `consign-core` | no | other crates |";
        assert_eq!(without_row(&crates, page), ["consign-core: docs/versions-and-stability.md has no row for it"]);
    }

    #[test]
    fn an_archive_has_its_licences_and_no_tests() {
        let files = ["Cargo.toml", "README.md", "LICENSE-APACHE", "LICENSE-MIT", "src/lib.rs"];
        assert_eq!(wrong_files("a", &files.join("\n")), [""; 0]);
        let wrong = wrong_files("a", &[&files[..3], &["src/lib.rs", "tests/x.rs"]].concat().join("\n"));
        assert_eq!(wrong, ["a: the archive lacks LICENSE-MIT", "a: the archive has tests/x.rs"]);
    }
}
