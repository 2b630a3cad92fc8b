//! `cargo xtask deny`: which packages of the workspace may depend on which, and the policy of `deny.toml` on the whole tree of
//! dependencies.
//!
//! To build cargo-deny takes longer than most checks. Where it is missing, it is not installed for dependencies that have passed
//! before: `xtask/deny.passed` has the digest of the files that say what they are.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use clap::Args;

use crate::error::Error;
use crate::layers;
use crate::toolchain::installed;
use crate::workspace::{cargo, output, read, root, run as run_command, write};

/// A version that is known to build with the toolchain in use; a newer one may not.
const VERSION: &str = "0.20.2";

const PASSED: &str = "xtask/deny.passed";

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Run cargo-deny even if the same dependencies have passed before, and record that they pass
    #[arg(long)]
    write: bool,
}

pub(crate) fn run(options: &Options) -> Result<(), Error> {
    layers::check()?;
    let (inputs, mut version) = (inputs()?, cargo(["deny", "--version"]));
    let has_passed = read(PASSED).is_ok_and(|passed| passed.trim() == inputs);
    if has_passed && !options.write && output(&mut version).is_err() {
        println!(
            "bans, licences and sources: passed before, see {PASSED}; advisories: LEFT OUT, cargo-deny is missing"
        );
        return Ok(());
    }
    installed(&mut version, "cargo-deny", VERSION, &[])?;
    run_command(&mut cargo(["deny", "--workspace", "check", "--hide-inclusion-graph", "bans", "licenses", "sources"]))?;
    if options.write {
        write(PASSED, &(inputs + "\n"))?;
    }
    if let Some(database) = advisory_database() {
        println!("advisories: checked against {}", database.display());
        run_command(&mut cargo(["deny", "--workspace", "--offline", "check", "--hide-inclusion-graph", "advisories"]))
    } else {
        println!("advisories: LEFT OUT, no database at hand; CONTRIBUTING.md says how to supply one");
        Ok(())
    }
}

/// A digest of all files that the checks of bans, licences and sources read.
fn inputs() -> Result<String, Error> {
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        git.args(arguments).current_dir(root());
        output(&mut git)
    };
    let files = git(&["ls-files", "--", "Cargo.lock", "deny.toml", "Cargo.toml", "*/Cargo.toml"])?;
    let mut hash = vec!["hash-object", "--"];
    hash.extend(files.lines());
    // cargo-deny itself is an input too.
    let list = "target/deny.txt";
    write(list, &format!("{VERSION}\n{files}{}", git(&hash)?))?;
    Ok(git(&["hash-object", "--", list])?.trim().to_owned())
}

/// The copy of the advisory database where cargo-deny looks for it, if there is one.
fn advisory_database() -> Option<PathBuf> {
    let cargo_home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let cargo_home = cargo_home.or_else(|| Some(std::env::home_dir()?.join(".cargo")))?;
    let entries = fs::read_dir(cargo_home.join("advisory-dbs")).ok()?;
    entries.filter_map(Result::ok).map(|entry| entry.path()).find(|path| path.join(".git").is_dir())
}
