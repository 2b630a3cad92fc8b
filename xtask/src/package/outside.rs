//! A crate outside of the workspace that depends on all archives, with all features, and runs the quick start of the README.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

use serde_json::Value;

use super::Manifest;
use crate::error::Error;
use crate::folder::remove;
use crate::workspace::{cargo, output, read, root, run as run_command};

/// What the quick start prints last.
const LAST_LINE: &str = "1 completed, 1 dead-lettered";

/// Unpacks the archives, which `cargo package` has made, writes the crate, and runs it.
pub(super) fn run(published: &[Manifest], metadata: &Value) -> Result<(), Error> {
    let target = PathBuf::from(metadata["target_directory"].as_str().unwrap_or("target"));
    let (archives, folder) = (target.join("package"), target.join("outside"));
    let unpacked = folder.join("unpacked");
    remove(&folder)?;
    fs::create_dir_all(folder.join("src")).map_err(failed(&folder))?;
    fs::create_dir_all(&unpacked).map_err(failed(&unpacked))?;
    for package in published {
        let archive = archives.join(format!("{}-{}.crate", package.name, package.version));
        // The files of an archive have one time. With it cargo would take them for those of an earlier run.
        run_command(Command::new("tar").arg("-xzmf").arg(archive).arg("-C").arg(&unpacked))?;
    }
    write(&folder.join("Cargo.toml"), &manifest(published, &unpacked))?;
    write(&folder.join("src/main.rs"), &program(published, &read("README.md")?))?;
    // The versions that the workspace is tested with.
    let lock = root().join("Cargo.lock");
    fs::copy(&lock, folder.join("Cargo.lock")).map_err(failed(&lock))?;

    let mut run = cargo(["run", "--quiet"]);
    let printed = output(run.current_dir(&folder).env("CARGO_TARGET_DIR", &target))?;
    if printed.lines().last() == Some(LAST_LINE) {
        Ok(())
    } else {
        Err(Error::Package(vec![format!("it printed {printed}")]))
    }
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    fs::write(path, text).map_err(failed(path))
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    |source| Error::Write { path, source }
}

/// A manifest that takes every crate from its archive.
fn manifest(published: &[Manifest], unpacked: &Path) -> String {
    let mut text = String::from(
        "[package]\nname = \"outside\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n# Not a member of the workspace around it.\n\
         [workspace]\n\n[dependencies]\nserde = { version = \"1\", features = [\"derive\"] }\n\
         tokio = { version = \"1\", features = [\"macros\", \"rt\"] }\ntower = \"0.5\"\n",
    );
    for Manifest { name, version, features, .. } in published {
        let _ = writeln!(text, "{name} = {{ version = \"{version}\", features = {features:?} }}");
    }
    text.push_str("\n[patch.crates-io]\n");
    for Manifest { name, version, .. } in published {
        let _ = writeln!(text, "{name} = {{ path = \"{}\" }}", unpacked.join(format!("{name}-{version}")).display());
    }
    text
}

/// The quick start, in a program that links every crate.
fn program(published: &[Manifest], readme: &str) -> String {
    let libraries = published.iter().filter(|package| !package.is_macro && package.name != "consign");
    let uses: Vec<_> = libraries.map(|package| format!("use {} as _;", package.name.replace('-', "_"))).collect();
    let start = readme.split_once("```rust\n").and_then(|(_, rest)| rest.split_once("```"));
    format!("{}\n{}", uses.join("\n"), start.map_or("", |(program, _)| program))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_crate_takes_each_package_from_its_archive() {
        let package = |name: &str, features: &[&str]| Manifest {
            name: name.into(),
            version: "0.1.0".into(),
            features: features.iter().map(ToString::to_string).collect(),
            is_macro: false,
        };
        let published = [package("consign", &["full"]), package("consign-nats", &[])];
        let text = manifest(&published, Path::new("/x"));
        assert!(text.contains("consign = { version = \"0.1.0\", features = [\"full\"] }\n"), "{text}");
        assert!(text.contains("consign-nats = { path = \"/x/consign-nats-0.1.0\" }\n"), "{text}");
        let program = program(&published, include_str!("../../../README.md"));
        assert!(
            program.starts_with("use consign_nats as _;\nuse consign::{") && program.contains("fn main()"),
            "{program}"
        );
        assert!(include_str!("../../../README.md").contains(LAST_LINE));
    }
}
