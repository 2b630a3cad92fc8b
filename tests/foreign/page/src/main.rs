//! `foreign-page FOLDER [--json]`: the page of `consign serve` in Chromium.
//!
//! FOLDER is what `scripts/foreign` prints. This program fills stores, and runs the journeys of `run.mjs`, which start and kill the
//! servers. Screenshots are in `target/foreign/page`. The process fails if a journey does. `CONSIGN_JOURNEYS` selects journeys whose
//! name contains a text.
#![forbid(unsafe_code)]

mod stores;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{ExitCode, Stdio},
};

use serde_json::json;
use tokio::process::Command;

type Failure = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// The folder of programs of the same build.
fn programs() -> Result<PathBuf, Failure> {
    let own = env::current_exe()?;
    Ok(own.parent().and_then(Path::parent).ok_or("no folder of programs")?.to_owned())
}

async fn run() -> Result<ExitCode, Failure> {
    let mut arguments = env::args().skip(1);
    let packages = PathBuf::from(arguments.next().ok_or("the folder of the packages is missing")?);
    let is_json = arguments.next().is_some_and(|argument| argument == "--json");
    let programs = programs()?;
    let screenshots = programs.parent().ok_or("no target folder")?.join("foreign/page");
    fs::create_dir_all(&screenshots)?;

    let folder = tempfile::tempdir()?;
    stores::fill(folder.path()).await?;
    let settings = json!({
        "program": programs.join("consign"),
        "folder": folder.path(),
        "screenshots": screenshots,
        "browser": env::var("CONSIGN_CHROMIUM").unwrap_or_else(|_| "chromium".to_owned()),
        "only": env::var("CONSIGN_JOURNEYS").unwrap_or_default(),
    });
    let file = folder.path().join("settings.json");
    fs::write(&file, settings.to_string())?;

    let script: PathBuf = [env!("CARGO_MANIFEST_DIR"), "run.mjs"].iter().collect();
    let mut command = Command::new("node");
    command.env("NODE_MODULES", &packages).arg(script).arg(&file);
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).kill_on_drop(true).output().await?;
    let text = String::from_utf8(output.stdout)?;
    let passed: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("pass ")).collect();
    let failed: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("FAIL ")).collect();
    let has_ended = text.lines().any(|line| line == "end");
    if is_json {
        println!("{}", json!({ "passed": passed, "failed": failed, "ended": has_ended }));
    } else {
        for failure in &failed {
            println!("FAIL  {failure}");
        }
        println!("{} passed, {} failed; screenshots in {}", passed.len(), failed.len(), screenshots.display());
    }
    let is_good = has_ended && failed.is_empty() && !passed.is_empty();
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
