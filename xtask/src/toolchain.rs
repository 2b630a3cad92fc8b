//! The nightly toolchain of rustup, and programs that cargo installs.

use std::process::{Command, Stdio};

use crate::error::Error;
use crate::workspace::{cargo, output, root, run as run_command};

const NIGHTLY: &str = "nightly";

/// `cargo` of the nightly toolchain, in the root of the workspace.
pub(crate) fn nightly(arguments: &[&str]) -> Command {
    let mut command = Command::new("rustup");
    command.args(["run", NIGHTLY, "cargo"]).args(arguments).current_dir(root()).stdin(Stdio::null());
    command
}

/// Fails unless there is a nightly toolchain.
pub(crate) fn has_nightly() -> Result<(), Error> {
    if succeeds(&mut nightly(&["--version"])) { Ok(()) } else { Err(Error::NoToolchain(NIGHTLY)) }
}

/// Whether a command succeeds. What it prints is not shown.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    output(command.stderr(Stdio::null())).is_ok()
}

/// Installs a package of this version unless the command, which asks for its version, succeeds.
pub(crate) fn installed(command: &mut Command, package: &str, version: &str, options: &[&str]) -> Result<(), Error> {
    if succeeds(command) {
        return Ok(());
    }
    eprintln!("{package} is missing: installing {version}");
    run_command(cargo(["install", package, "--locked", "--debug", "--version", version]).args(options))
}
