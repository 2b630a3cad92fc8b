//! Where the workspace is, and how programs are run in it.

use std::ffi::OsString;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::error::Error;

/// The folder of the workspace's own `Cargo.toml`.
pub(crate) fn root() -> &'static Path {
    let member = Path::new(env!("CARGO_MANIFEST_DIR"));
    member.parent().unwrap_or(member)
}

/// The text of a file, by its path inside the workspace.
pub(crate) fn read(path: impl AsRef<Path>) -> Result<String, Error> {
    let path = root().join(path);
    fs::read_to_string(&path).map_err(|source| Error::Read { path, source })
}

/// Writes a file, by its path inside the workspace.
pub(crate) fn write(path: impl AsRef<Path>, text: &str) -> Result<(), Error> {
    let path = root().join(path);
    let folder = path.parent().map_or(Ok(()), fs::create_dir_all);
    folder.and_then(|()| fs::write(&path, text)).map_err(|source| Error::Write { path, source })
}

/// Every `.rs` file of the workspace, in no particular order. Hidden folders and what cargo built are passed over.
pub(crate) fn rust_files() -> Result<Vec<PathBuf>, Error> {
    let mut files = Vec::new();
    let mut folders = vec![root().to_path_buf()];
    while let Some(folder) = folders.pop() {
        let failed = |source| Error::Read { path: folder.clone(), source };
        for entry in fs::read_dir(&folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if entry.file_type().map_err(failed)?.is_dir() {
                if !name.starts_with('.') && name != "target" {
                    folders.push(entry.path());
                }
            } else if name.ends_with(".rs") {
                files.push(entry.path());
            }
        }
    }
    Ok(files)
}

/// `cargo` with these arguments, in the root of the workspace and with nothing to read.
pub(crate) fn cargo<const N: usize>(arguments: [&str; N]) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root()).stdin(Stdio::null());
    command
}

/// What `cargo metadata` says of the packages of the workspace, without what they depend on.
pub(crate) fn metadata() -> Result<Value, Error> {
    let metadata = output(&mut cargo(["metadata", "--no-deps", "--format-version", "1"]))?;
    serde_json::from_str(&metadata).map_err(Error::Metadata)
}

/// Runs a command to its end. What it prints goes to the standard error, which leaves the standard output to the subcommand.
pub(crate) fn run(command: &mut Command) -> Result<(), Error> {
    for_each_line(command, |line| eprintln!("{line}"))
}

/// Runs a command to its end and returns what it printed.
pub(crate) fn output(command: &mut Command) -> Result<String, Error> {
    let mut text = String::new();
    for_each_line(command, |line| {
        text.push_str(line);
        text.push('\n');
    })?;
    Ok(text)
}

/// Runs a command to its end and hands over each line of its standard output as it comes.
pub(crate) fn for_each_line(command: &mut Command, mut line: impl FnMut(&str)) -> Result<(), Error> {
    let name = describe(command);
    let start = |source| Error::Start { command: name.clone(), source };
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(start)?;
    if let Some(stdout) = child.stdout.take() {
        for text in BufReader::new(stdout).lines() {
            line(&text.map_err(start)?);
        }
    }
    let status = child.wait().map_err(start)?;
    if status.success() { Ok(()) } else { Err(Error::Failed { command: name, status }) }
}

/// The commit of the workspace and, if files differ from it, a hash of the differences.
pub(crate) fn code() -> Result<String, Error> {
    let git = |arguments: &[&str]| output(Command::new("git").args(arguments).current_dir(root()).stdin(Stdio::null()));
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    let commit = commit.trim();
    let differences = git(&["diff", "HEAD"])?;
    if differences.is_empty() {
        return Ok(commit.into());
    }
    let mut hasher = DefaultHasher::new();
    differences.hash(&mut hasher);
    Ok(format!("{commit}+{:016x}", hasher.finish()))
}

fn describe(command: &Command) -> String {
    let arguments: Vec<_> = command.get_args().map(|argument| argument.to_string_lossy()).collect();
    let program = Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy();
    format!("{program} {}", arguments.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_command_is_named_with_its_arguments() {
        let error = run(&mut cargo(["no-such-subcommand", "--x"])).unwrap_err();
        assert!(error.to_string().starts_with("`cargo no-such-subcommand --x` failed: "), "{error}");
    }

    #[test]
    fn each_test_is_in_one_of_the_profiles_of_scripts_test() {
        let settings: toml::Table = toml::from_str(&read(".config/nextest.toml").unwrap()).unwrap();
        let filter = |profile: &str| settings["profile"][profile]["default-filter"].as_str().unwrap();
        assert_eq!(filter("processors"), format!("not ({})", filter("servers")));
        let script = read("scripts/test").unwrap();
        for profile in ["servers", "processors"] {
            assert!(script.contains(&format!("--profile {profile}")), "{profile}");
        }
    }

    #[test]
    fn the_walk_finds_this_file_and_nothing_cargo_built() {
        let files = rust_files().unwrap();
        assert!(files.contains(&root().join("xtask/src/workspace.rs")));
        assert!(files.iter().all(|file| !file.starts_with(root().join("target"))));
    }
}
