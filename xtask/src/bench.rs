//! The benches: how they are built, and what callgrind counts inside their `hot_phase`.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::error::Error;
use crate::workspace::{cargo, output, root};

/// Builds a bench as it is measured, and finds its program.
pub(crate) fn build(bench: &'static str) -> Result<PathBuf, Error> {
    let mut build = cargo(["bench", "--profile", "lto", "--features", "full", "--bench", bench, "--no-run"]);
    let built = output(build.args(["--message-format", "json"]))?;
    executable(&built, bench).ok_or(Error::NoTest { filter: bench })
}

/// The bench's program, from what cargo says of its build.
fn executable(built: &str, bench: &str) -> Option<PathBuf> {
    built.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).find_map(|message| {
        let is_bench = message["target"]["name"] == bench;
        message["executable"].as_str().filter(|_| is_bench).map(PathBuf::from)
    })
}

/// Instructions inside `hot_phase`.
pub(crate) fn instructions(program: &Path, arguments: &[&str]) -> Result<u64, Error> {
    let name = describe(arguments);
    let ran = callgrind(&[], program, arguments).stdin(Stdio::null()).output();
    counted(name.clone(), &ran.map_err(|source| Error::Start { command: name, source })?)
}

/// The same for a program that says when it is ready, and then waits for the end of its standard input. Until there
/// nothing is counted at all, which is ten times as fast.
pub(crate) fn instructions_once_ready(program: &Path, arguments: &[&str]) -> Result<u64, Error> {
    let name = describe(arguments);
    let start = |source| Error::Start { command: name.clone(), source };
    let mut command = callgrind(&["--instr-atstart=no"], program, arguments);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(start)?;
    // Open until the program has ended, which may print more than this. If it ends before, its status says why.
    let mut printed = child.stdout.take().map(|stdout| BufReader::new(stdout).lines());
    if let Some(lines) = &mut printed {
        lines.find(|line| line.as_ref().map_or(true, |line| line == "ready"));
    }
    let mut control = Command::new("callgrind_control");
    control.args(["-i", "on", &child.id().to_string()]).stdin(Stdio::null());
    control.output().map_err(|source| Error::Start { command: "callgrind_control".into(), source })?;
    counted(name.clone(), &child.wait_with_output().map_err(start)?)
}

fn callgrind(options: &[&str], program: &Path, arguments: &[&str]) -> Command {
    let out = format!("--callgrind-out-file={}", root().join("target/bench.callgrind").display());
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", &out, "--collect-atstart=no", "--toggle-collect=*hot_phase*"]).args(options);
    command.arg(program).args(arguments).current_dir(root());
    command
}

fn counted(command: String, ran: &Output) -> Result<u64, Error> {
    if !ran.status.success() {
        return Err(Error::Failed { command, status: ran.status });
    }
    collected(&String::from_utf8_lossy(&ran.stderr)).ok_or(Error::NoCount { command })
}

fn describe(arguments: &[&str]) -> String {
    format!("valgrind {}", arguments.join(" "))
}

/// The number behind `Collected :`. Nothing was counted if it is 0.
fn collected(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.split_once("Collected :")?.1.trim().parse().ok()).filter(|&count| count > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_found() {
        assert_eq!(collected("==7== \n==7== Collected : 905014\n==7== "), Some(905_014));
        assert_eq!(collected("==7== Events : Ir"), None);
        assert_eq!(collected("==7== Collected : 0"), None);
    }

    #[test]
    fn the_program_of_the_bench_is_found_among_others() {
        let built = r#"{"target":{"name":"other"},"executable":"a"}
not json
{"target":{"name":"consume"},"executable":"b"}"#;
        assert_eq!(executable(built, "consume"), Some(PathBuf::from("b")));
    }
}
