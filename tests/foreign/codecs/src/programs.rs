//! The programs in Python and Node, and what they print.

use std::{
    ffi::{OsStr, OsString},
    io::Read as _,
    path::Path,
    process::{Child, Command, Stdio},
    thread::JoinHandle,
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::Error;

/// A body that an encoder has written.
#[derive(Serialize, Deserialize)]
pub(crate) struct Written {
    pub(crate) encoder: String,
    pub(crate) version: String,
    pub(crate) format: String,
    /// The id of the value.
    pub(crate) value: String,
    /// Base64; none if the encoder cannot write the value.
    pub(crate) body: Option<String>,
    /// Why the body does not hold the value, if it does not.
    pub(crate) lost: Option<String>,
}

impl Written {
    pub(crate) fn ours(format: &str, value: &str, body: String) -> Self {
        let (encoder, version) = ("consign".into(), String::new());
        Self { encoder, version, format: format.into(), value: value.into(), body: Some(body), lost: None }
    }
}

/// What a decoder has made of a body of this library.
#[derive(Deserialize)]
pub(crate) struct Read {
    pub(crate) decoder: String,
    pub(crate) version: String,
    pub(crate) format: String,
    pub(crate) value: String,
    pub(crate) outcome: String,
    pub(crate) reason: Option<String>,
}

/// One JSON document a line.
pub(crate) fn lines<T: Serialize>(values: &[T]) -> Result<String, Error> {
    let lines: Result<Vec<String>, _> = values.iter().map(serde_json::to_string).collect();
    Ok(lines?.join("\n"))
}

/// A program with the peers of one language.
pub(crate) struct Program {
    pub(crate) language: &'static str,
    program: OsString,
    arguments: Vec<OsString>,
}

impl Program {
    pub(crate) fn all(package: &Path, folder: &Path) -> [Self; 2] {
        let python = Self {
            language: "Python",
            program: folder.join("venv/bin/python").into(),
            arguments: vec![package.join("peers.py").into()],
        };
        let node = Self {
            language: "Node",
            program: "node".into(),
            arguments: vec![package.join("peers.mjs").into(), folder.join("node_modules").into()],
        };
        [python, node]
    }

    /// Starts it. What it prints is read as it comes, so that several can run at once.
    pub(crate) fn start(&self, arguments: &[&OsStr]) -> Running {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).args(arguments).stdin(Stdio::null()).stdout(Stdio::piped());
        let started = command.spawn().map(|mut child| {
            let mut stdout = child.stdout.take();
            let reader = std::thread::spawn(move || {
                let mut text = String::new();
                stdout.as_mut().map_or(Ok(0), |stdout| stdout.read_to_string(&mut text)).map(|_| text)
            });
            (child, reader)
        });
        Running { language: self.language, started }
    }
}

/// A program that runs.
pub(crate) struct Running {
    language: &'static str,
    started: std::io::Result<(Child, JoinHandle<std::io::Result<String>>)>,
}

impl Running {
    /// What it has printed, once it has ended.
    pub(crate) fn finish<T: DeserializeOwned>(self) -> Result<Vec<T>, Error> {
        let language = self.language;
        let (mut child, reader) = self.started.map_err(|error| format!("cannot run {language}: {error}"))?;
        let text = reader.join().map_err(|_| "a reader panicked")??;
        let status = child.wait()?;
        if !status.success() {
            return Err(format!("the program in {language} failed: {status}").into());
        }
        text.lines().map(|line| serde_json::from_str(line).map_err(Error::from)).collect()
    }
}
