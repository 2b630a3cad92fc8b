//! `cargo xtask semver`: the public items of each published crate beside those of the last release, by cargo-semver-checks.

use std::process::{Command, Stdio};

use clap::Args;

use crate::error::Error;
use crate::package::manifest::libraries;
use crate::toolchain::installed;
use crate::workspace::{cargo, metadata, output, root, run as run_command};

/// A version that is known to build with the toolchain in use; a newer one may not.
const VERSION: &str = "0.51.0";
/// The tags of releases.
const TAGS: &str = "v*";

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Compare with this commit or tag instead of the last tag of a release
    #[arg(long, value_name = "REV")]
    baseline: Option<String>,
    /// Only these crates, separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    only: Vec<String>,
}

pub(crate) fn run(options: &Options) -> Result<(), Error> {
    let mut names = libraries(&metadata()?, &options.only)?;
    if let Some(baseline) = &options.baseline {
        exists(baseline)?;
    }
    let Some(baseline) = options.baseline.clone().or_else(last_tag) else {
        println!("LEFT OUT: there is no tag {TAGS} to compare with");
        return Ok(());
    };
    installed(&mut cargo(["semver-checks", "--version"]), "cargo-semver-checks", VERSION, &[])?;
    // A crate that is newer than the baseline has nothing to compare with.
    names.retain(|package| is_in(&baseline, &package.name));
    if names.is_empty() {
        println!("LEFT OUT: {baseline} has none of the crates");
        return Ok(());
    }
    let mut command = cargo(["semver-checks", "--all-features", "--baseline-rev", &baseline]);
    run_command(command.args(names.iter().flat_map(|package| ["--package", &package.name])))?;
    println!("{} crates break nothing since {baseline} that their versions do not allow", names.len());
    Ok(())
}

/// The tag of the last release, if there is one.
fn last_tag() -> Option<String> {
    let mut command = git(["describe", "--tags", "--match", TAGS, "--abbrev=0"]);
    let tag = output(command.stderr(Stdio::null())).ok()?;
    Some(tag.trim().to_owned())
}

/// Fails unless this is the name of a commit.
fn exists(revision: &str) -> Result<(), Error> {
    let commit = format!("{revision}^{{commit}}");
    let found = output(&mut git(["rev-parse", "--verify", "--quiet", "--end-of-options", &commit]));
    found.map(drop).map_err(|_| Error::NoCommit(revision.into()))
}

/// Whether a commit has a crate of this name.
fn is_in(revision: &str, name: &str) -> bool {
    let line = format!("name = \"{name}\"");
    output(&mut git(["grep", "--files-with-matches", "--fixed-strings", &line, revision, "--", "*Cargo.toml"])).is_ok()
}

fn git<const N: usize>(arguments: [&str; N]) -> Command {
    let mut command = Command::new("git");
    command.args(arguments).current_dir(root()).stdin(Stdio::null());
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_baseline_is_a_commit() {
        assert!(exists("HEAD").is_ok());
        for wrong in ["nonsense", "", "HEAD:Cargo.toml", "--all"] {
            assert!(exists(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_crate_is_compared_if_the_baseline_has_it() {
        assert!(is_in("HEAD", "consign-core"));
        assert!(!is_in("HEAD", "consign-of-tomorrow"));
    }
}
