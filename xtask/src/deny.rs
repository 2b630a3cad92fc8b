//! `cargo xtask deny`: which packages of the workspace may depend on which, and the policy of `deny.toml` on the whole tree of
//! dependencies.

use std::fs;
use std::path::PathBuf;

use crate::error::Error;
use crate::layers;
use crate::workspace::{cargo, output, run as run_command};

/// A version that is known to build with the toolchain in use; a newer one may not.
const VERSION: &str = "0.20.2";

pub(crate) fn run() -> Result<(), Error> {
    layers::check()?;
    if output(&mut cargo(["deny", "--version"])).is_err() {
        eprintln!("cargo-deny is missing: installing {VERSION}");
        run_command(&mut cargo(["install", "cargo-deny", "--locked", "--debug", "--version", VERSION]))?;
    }
    run_command(&mut cargo(["deny", "--workspace", "check", "--hide-inclusion-graph", "bans", "licenses", "sources"]))?;
    if let Some(database) = advisory_database() {
        println!("advisories: checked against {}", database.display());
        run_command(&mut cargo(["deny", "--workspace", "--offline", "check", "--hide-inclusion-graph", "advisories"]))
    } else {
        println!("advisories: LEFT OUT, no database at hand; CONTRIBUTING.md says how to supply one");
        Ok(())
    }
}

/// The copy of the advisory database where cargo-deny looks for it, if there is one.
fn advisory_database() -> Option<PathBuf> {
    let cargo_home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let cargo_home = cargo_home.or_else(|| Some(std::env::home_dir()?.join(".cargo")))?;
    let entries = fs::read_dir(cargo_home.join("advisory-dbs")).ok()?;
    entries.filter_map(Result::ok).map(|entry| entry.path()).find(|path| path.join(".git").is_dir())
}
