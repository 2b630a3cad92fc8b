//! The program, as a user runs it.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use serde_json::Value;

/// A folder of a test, and the URL of the broker that its commands use.
pub(crate) struct Shell {
    folder: tempfile::TempDir,
    url: String,
}

/// What a command printed, and its exit code.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Shell {
    /// A shell on a store in a new folder.
    pub(crate) fn on_a_store() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("file:{}", folder.path().join("store").display());
        Self { folder, url }
    }

    /// A shell on the broker of a URL.
    pub(crate) fn on(url: &str) -> Self {
        Self { folder: tempfile::tempdir().unwrap(), url: url.to_owned() }
    }

    /// The same folder, on the broker of a URL.
    pub(crate) fn with_url(self, url: &str) -> Self {
        Self { url: url.to_owned(), ..self }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_consign"));
        command.args(arguments).env("CONSIGN_URL", &self.url).current_dir(self.folder.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs a command with this input.
    pub(crate) fn with_input(&self, input: impl AsRef<[u8]>, arguments: &[&str]) -> Ran {
        let mut process = self.command(arguments).spawn().unwrap();
        // A command that reads none of it may have ended.
        let _ = process.stdin.take().unwrap().write_all(input.as_ref());
        process.wait_with_output().unwrap().into()
    }

    /// Runs a command.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        self.with_input("", arguments)
    }

    /// Runs a command that succeeds, and returns what it printed.
    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        let ran = self.run(arguments);
        assert_eq!(ran.code, Some(0), "{arguments:?}: {ran:?}");
        ran.out
    }

    /// Runs a command with `--json` that succeeds, and returns its objects.
    pub(crate) fn json(&self, arguments: &[&str]) -> Vec<Value> {
        objects(&self.ok(&[arguments, &["--json"]].concat()))
    }

    /// Runs a command that fails with this exit code, and returns its error.
    pub(crate) fn fails(&self, code: i32, arguments: &[&str]) -> String {
        let ran = self.run(arguments);
        assert_eq!(ran.code, Some(code), "{arguments:?}: {ran:?}");
        assert!(!ran.err.is_empty(), "{arguments:?}");
        ran.err
    }

    /// The bodies of the messages that are there, which this removes.
    pub(crate) fn bodies(&self, entity: &str) -> Vec<String> {
        let ran = self.run(&["receive", entity, "--all", "--timeout", "300ms", "--json"]);
        assert!(matches!(ran.code, Some(0 | 7)), "{ran:?}");
        objects(&ran.out).iter().map(|message| message["body"]["text"].as_str().unwrap().to_owned()).collect()
    }

    /// The messages that are there, which this removes. A server that is slow pauses: it goes on until `are_all`, and then looks
    /// once more, for what is there twice.
    pub(crate) fn drain(&self, entity: &str, timeout: &str, are_all: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let (mut all, mut left) = (Vec::new(), 60);
        loop {
            let is_last = left == 0 || are_all(&all);
            let ran = self.run(&["receive", entity, "--all", "--timeout", timeout, "--json"]);
            assert!(matches!(ran.code, Some(0 | 7)), "{ran:?}");
            all.extend(objects(&ran.out));
            if is_last {
                return all;
            }
            left -= 1;
        }
    }

    /// Dead-letters the first messages of a queue.
    pub(crate) fn dead_letter(&self, queue: &str, count: usize, reason: &str) {
        let count = count.to_string();
        let settle = ["--settle", "dead-letter", "--reason", reason, "--description", "the first line\nthe second"];
        self.ok(&[&["receive", queue, "-n", &count, "--no-body"], &settle[..]].concat());
    }
}

pub(crate) fn objects(lines: &str) -> Vec<Value> {
    lines.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("not JSON: {line}"))).collect()
}

/// Lines with the numbers from 1 on.
pub(crate) fn numbered(count: usize) -> String {
    (1..=count).map(|number| number.to_string() + "\n").collect()
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Presses Ctrl-C.
pub(crate) fn interrupt(process: &std::process::Child) {
    let pid = process.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
}
