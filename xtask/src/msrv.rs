//! `cargo xtask msrv`: the workspace under the Rust version that its packages declare, `rust-version` of `Cargo.toml`.

use std::process::{Command, Stdio};

use crate::error::Error;
use crate::workspace::{output, read, root, run as run_command};

/// Apart from the others, because each compiler builds everything anew.
const TARGET: &str = "target/msrv";

pub(crate) fn run() -> Result<(), Error> {
    let manifest = read("Cargo.toml")?;
    let version = declared(&manifest).ok_or(Error::NoRustVersion)?;
    if output(rustup(&["run", version, "rustc", "--version"]).stderr(Stdio::null())).is_err() {
        if output(&mut rustup(&["--version"])).is_err() {
            println!("LEFT OUT: rustup is missing, which installs Rust {version}");
            return Ok(());
        }
        eprintln!("Rust {version} is missing: installing it");
        run_command(&mut rustup(&["toolchain", "install", version, "--profile", "minimal"]))?;
    }
    let check =
        ["run", version, "cargo", "check", "--workspace", "--features", "full", "--locked", "--target-dir", TARGET];
    run_command(&mut rustup(&check))?;
    println!("the workspace compiles with Rust {version}");
    Ok(())
}

/// The value of `rust-version` in the manifest of the workspace.
fn declared(manifest: &str) -> Option<&str> {
    manifest.lines().find_map(|line| line.strip_prefix("rust-version = \"")?.strip_suffix('"'))
}

fn rustup(arguments: &[&str]) -> Command {
    let mut command = Command::new("rustup");
    // cargo sets these for the programs that it runs, and they would select its own compiler.
    command.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO").env_remove("RUSTC");
    command.args(arguments).current_dir(root()).stdin(Stdio::null());
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_declared_version_is_read() {
        let version = declared("[workspace.package]\nrust-version = \"1.90\"\n");
        assert_eq!(version, Some("1.90"));
        assert_eq!(declared("rust-version.workspace = true"), None);
        assert!(declared(&read("Cargo.toml").unwrap()).is_some());
    }
}
