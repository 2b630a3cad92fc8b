//! `cargo xtask api`: the public items of each published crate, beside those that `docs/api` has.
//!
//! rustdoc of the nightly toolchain writes them as JSON, into a target folder of its own. Items with `#[doc(hidden)]` are not public.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::Args;
use public_api::Builder;
use serde_json::{Value, json};

use crate::error::Error;
use crate::options::Output;
use crate::package::manifest::{Manifest, libraries};
use crate::toolchain::{has_nightly, nightly};
use crate::workspace::{metadata, read, run as run_command, write};

/// A folder with a file for each crate.
const FOLDER: &str = "docs/api";
/// As many lines of a difference are printed.
const SHOWN_LINES: usize = 40;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Write the lists of docs/api again
    #[arg(long)]
    write: bool,
    /// Only these crates, separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    only: Vec<String>,
    #[command(flatten)]
    output: Output,
}

pub(crate) fn run(options: &Options) -> Result<(), Error> {
    let metadata = metadata()?;
    let target = PathBuf::from(metadata["target_directory"].as_str().unwrap_or("target")).join("api");
    let libraries = libraries(&metadata, &options.only)?;
    has_nightly()?;
    let (mut changed, mut counts) = (Vec::new(), serde_json::Map::new());
    // The attributes of a procedural macro are in the API of the crate that re-exports it.
    for package in libraries {
        let items = items(&package, &target)?;
        let path = format!("{FOLDER}/{}.txt", package.name);
        if options.write {
            write(&path, &items)?;
        }
        let difference = difference(&read(&path).unwrap_or_default(), &items);
        if !difference.is_empty() {
            eprintln!("{}:", package.name);
            difference.iter().take(SHOWN_LINES).for_each(|line| eprintln!("  {line}"));
            if let Some(more) = difference.len().checked_sub(SHOWN_LINES + 1) {
                eprintln!("  and {} more lines", more + 1);
            }
            changed.push(package.name.clone());
        }
        counts.insert(package.name, json!({ "items": items.lines().count(), "changed": difference.len() }));
    }
    if options.output.json {
        println!("{}", Value::Object(counts));
    } else {
        counts
            .iter()
            .for_each(|(name, count)| println!("{name}: {} items, {} changed", count["items"], count["changed"]));
    }
    if changed.is_empty() { Ok(()) } else { Err(Error::Api(changed)) }
}

/// The public items of a crate with all features, one a line.
fn items(package: &Manifest, target: &Path) -> Result<String, Error> {
    let mut command = nightly(&["rustdoc", "--quiet", "--lib", "--all-features", "--package", &package.name]);
    command.arg("--target-dir");
    command.arg(target).args(["--", "-Zunstable-options", "--output-format", "json", "--cap-lints", "allow"]);
    // The toolchain of the caller is for the crates of the caller.
    run_command(command.env_remove("RUSTC").env_remove("RUSTDOC").env_remove("RUSTUP_TOOLCHAIN"))?;
    let json = target.join("doc").join(format!("{}.json", package.name.replace('-', "_")));
    let builder = Builder::from_rustdoc_json(&json).omit_blanket_impls(true).omit_auto_trait_impls(true);
    let api = builder.omit_auto_derived_impls(true).build().map_err(|source| Error::Rustdoc { json, source })?;
    let items: Vec<String> = api.items().map(ToString::to_string).collect();
    Ok(items.join("\n") + "\n")
}

/// The lines that are in one text only, with `-` or `+` before them.
fn difference(before: &str, after: &str) -> Vec<String> {
    let (old, new): (BTreeSet<_>, BTreeSet<_>) = (before.lines().collect(), after.lines().collect());
    let removed = before.lines().filter(|line| !new.contains(line)).map(|line| format!("- {line}"));
    let added = after.lines().filter(|line| !old.contains(line)).map(|line| format!("+ {line}"));
    removed.chain(added).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_has_what_was_removed_and_added() {
        assert_eq!(difference("a\nb\n", "b\nc\n"), ["- a", "+ c"]);
        assert_eq!(difference("a\n", "a\n"), [""; 0]);
    }
}
