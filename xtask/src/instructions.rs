//! `cargo xtask instructions`: what one consumed message costs, counted by callgrind.
//!
//! The slope between two numbers of messages, so that start-up cancels. It wants valgrind.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::Options;
use crate::error::Error;
use crate::workspace::{cargo, output, root};

const SCENARIOS: [&str; 6] = ["bytes", "json", "json@16", "json_real_clock", "json_four_layers", "serde_json"];
const MESSAGES: u64 = 1_000;

pub(crate) fn run(options: Options) -> Result<(), Error> {
    let mut build = cargo(["bench", "--profile", "lto", "--features", "full", "--bench", "consume", "--no-run"]);
    let built = output(build.args(["--message-format", "json"]))?;
    let program = executable(&built).ok_or(Error::NoTest { filter: "consume" })?;
    let mut counted = Vec::new();
    for scenario in SCENARIOS {
        let once = instructions(&program, scenario, MESSAGES)?;
        let twice = instructions(&program, scenario, 2 * MESSAGES)?;
        counted.push((scenario, twice.saturating_sub(once) / MESSAGES));
    }
    if options.json {
        let scenarios: Vec<_> = counted.iter().map(|(name, ours)| json!({ "name": name, "ours": ours })).collect();
        println!("{}", json!({ "unit": "instructions per message", "scenarios": scenarios }));
    } else {
        println!("{:<20} instructions per message", "scenario");
        for (name, ours) in counted {
            println!("{name:<20} {ours}");
        }
    }
    Ok(())
}

/// The bench's program, from what cargo says of its build.
fn executable(built: &str) -> Option<PathBuf> {
    built.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).find_map(|message| {
        let is_bench = message["target"]["name"] == "consume";
        message["executable"].as_str().filter(|_| is_bench).map(PathBuf::from)
    })
}

fn instructions(program: &Path, scenario: &str, messages: u64) -> Result<u64, Error> {
    let out = format!("--callgrind-out-file={}", root().join("target/consume.callgrind").display());
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", &out, "--collect-atstart=no"]);
    command.arg("--toggle-collect=*hot_phase*").arg(program).arg(scenario).arg(messages.to_string());
    let name = format!("valgrind consume {scenario}");
    let ran = command.current_dir(root()).stdin(Stdio::null()).output();
    let ran = ran.map_err(|source| Error::Start { command: name.clone(), source })?;
    if !ran.status.success() {
        return Err(Error::Failed { command: name, status: ran.status });
    }
    collected(&String::from_utf8_lossy(&ran.stderr)).ok_or(Error::NoCount { command: name })
}

/// The number behind `Collected :`.
fn collected(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.split_once("Collected :")?.1.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_found() {
        assert_eq!(collected("==7== \n==7== Collected : 905014\n==7== "), Some(905_014));
        assert_eq!(collected("==7== Events : Ir"), None);
    }

    #[test]
    fn the_program_of_the_bench_is_found_among_others() {
        let built = r#"{"target":{"name":"other"},"executable":"a"}
not json
{"target":{"name":"consume"},"executable":"b"}"#;
        assert_eq!(executable(built), Some(PathBuf::from("b")));
    }
}
