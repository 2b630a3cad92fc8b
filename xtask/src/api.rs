//! `cargo xtask api`: the public API of each published crate beside its snapshot in `docs/api`, and beside the last release.

use clap::Args;
use serde_json::{Value, json};

use crate::error::Error;
use crate::options::Output;
use crate::package::published;
use crate::workspace::{cargo, output, read, run as run_command, write};

const TOOLCHAIN: &str = "nightly";
/// Versions that are known to build, and to read what the toolchain in use writes.
const PUBLIC_API: &str = "0.52.0";
const SEMVER_CHECKS: &str = "0.46.0";

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Write the snapshots instead of comparing them
    #[arg(long)]
    write: bool,
    #[command(flatten)]
    output: Output,
}

pub(crate) fn run(options: &Options) -> Result<(), Error> {
    if output(&mut cargo(["public-api", "--version"])).is_err() {
        eprintln!("cargo-public-api is missing: installing {PUBLIC_API}");
        run_command(&mut cargo(["install", "cargo-public-api", "--locked", "--debug", "--version", PUBLIC_API]))?;
    }
    let metadata = output(&mut cargo(["metadata", "--no-deps", "--format-version", "1"]))?;
    let metadata: Value = serde_json::from_str(&metadata).map_err(Error::Metadata)?;
    let mut changed = Vec::new();
    // A procedural macro has no items of its own.
    let libraries: Vec<_> = published(&metadata).into_iter().filter(|package| !package.is_macro).collect();
    for package in &libraries {
        eprintln!("{}", package.name);
        let found = public_api(&package.name)?;
        let snapshot = format!("docs/api/{}.txt", package.name);
        if options.write {
            write(&snapshot, &found)?;
        } else if read(&snapshot).ok().as_ref() != Some(&found) {
            changed.push(package.name.clone());
        }
    }
    let release = last_release();
    if let Some(tag) = &release {
        compare_with(tag)?;
    }
    if options.output.json {
        println!("{}", json!({ "crates": libraries.len(), "changed": changed, "release": release }));
    } else {
        println!("the public API of {} crates; changed without a new snapshot: {}", libraries.len(), changed.len());
        match &release {
            Some(tag) => println!("semantic version: checked against {tag}"),
            None => println!("semantic version: LEFT OUT, no release has a tag `v*`"),
        }
    }
    if changed.is_empty() { Ok(()) } else { Err(Error::Api(changed)) }
}

/// The items of a crate with all features, without the implementations that every type has.
fn public_api(package: &str) -> Result<String, Error> {
    let mut command = std::process::Command::new("rustup");
    command.args(["run", TOOLCHAIN, "cargo", "public-api", "--all-features", "-sss", "--package", package]);
    output(command.current_dir(crate::workspace::root()).stdin(std::process::Stdio::null()))
}

/// The tag of the last release before this commit.
fn last_release() -> Option<String> {
    let mut command = std::process::Command::new("git");
    command.args(["describe", "--tags", "--abbrev=0", "--match", "v*"]).stderr(std::process::Stdio::null());
    let tag = output(command.current_dir(crate::workspace::root())).ok()?;
    Some(tag.trim().to_owned()).filter(|tag| !tag.is_empty())
}

/// Fails if the versions in the manifests do not permit the changes since `tag`.
fn compare_with(tag: &str) -> Result<(), Error> {
    if output(&mut cargo(["semver-checks", "--version"])).is_err() {
        eprintln!("cargo-semver-checks is missing: installing {SEMVER_CHECKS}");
        run_command(&mut cargo(["install", "cargo-semver-checks", "--locked", "--debug", "--version", SEMVER_CHECKS]))?;
    }
    run_command(&mut cargo(["semver-checks", "--workspace", "--baseline-rev", tag]))
}
