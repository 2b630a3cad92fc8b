//! `cargo xtask fuzz`: the fuzz targets of `fuzz/`, one after another, under libFuzzer on the nightly toolchain.
//!
//! What libFuzzer keeps goes to `fuzz/corpus`, which is not committed, and a finding to `fuzz/artifacts`. The kept inputs are in
//! `fuzz/seeds`.

pub(crate) mod finding;
mod report;

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use clap::Args;
use clap::builder::PossibleValuesParser;
use serde_json::Value;

use self::report::Report;
use crate::error::Error;
use crate::options::{Output, positive};
use crate::toolchain::{has_nightly, nightly, succeeds};
use crate::workspace::{cargo, for_each_line, root, run as run_command};

/// The targets, and their longest inputs in bytes. A script has more to do for each byte.
const TARGETS: [(&str, u32); 12] = [
    ("codec", 4_096),
    ("message", 4_096),
    ("engine", 1_024),
    ("content_type", 300),
    ("formats", 4_096),
    ("chain", 2_048),
    ("rules", 1_024),
    ("http", 4_096),
    ("headers", 2_048),
    ("envelopes", 4_096),
    ("dedup", 1_024),
    ("store", 2_048),
];
/// The test that calls a target with files.
const REPLAY: &str = "every_kept_input_passes";
/// A file system in memory, where there is one.
const MEMORY: &str = "/dev/shm";
/// The largest allocation and the memory of the process, and the seconds of one input.
const LIMITS: [&str; 3] = ["-malloc_limit_mb=64", "-rss_limit_mb=2048", "-timeout=10"];

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Run only this target
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(TARGETS.map(|(name, _)| name)))]
    pub(crate) target: Option<String>,
    /// Run each target for so many seconds
    #[arg(long, value_name = "N", default_value = "60", value_parser = positive)]
    pub(crate) seconds: u64,
    /// Call the targets once with each kept input, or with a file or the files of a folder, on this toolchain
    #[arg(long, value_name = "FILE", num_args = 0..=1, conflicts_with_all = ["seconds", "json"])]
    #[expect(clippy::option_option, reason = "the option may be there without a value")]
    pub(crate) replay: Option<Option<PathBuf>>,
    #[command(flatten)]
    pub(crate) output: Output,
}

pub(crate) fn run(options: &Options) -> Result<(), Error> {
    if let Some(input) = &options.replay {
        return replay(options.target.as_deref(), input.as_deref());
    }
    prepare()?;
    let mut reports = Vec::new();
    for (target, longest) in TARGETS {
        if options.target.as_ref().is_some_and(|only| only != target) {
            continue;
        }
        let report = fuzz(target, longest, options.seconds)?;
        if !options.output.json {
            println!("{report}");
        }
        reports.push(report);
    }
    if options.output.json {
        println!("{}", Value::Array(reports.iter().map(Report::json).collect()));
    }
    let findings: Vec<_> = reports.into_iter().flat_map(Report::into_findings).collect();
    if findings.is_empty() { Ok(()) } else { Err(Error::Findings(findings)) }
}

/// Checks that there is a nightly toolchain, and installs cargo-fuzz if it is missing.
fn prepare() -> Result<(), Error> {
    has_nightly()?;
    if succeeds(&mut nightly(&["fuzz", "--version"])) {
        return Ok(());
    }
    eprintln!("cargo-fuzz is missing: installing it");
    run_command(&mut cargo(["install", "cargo-fuzz", "--locked"]))
}

/// Runs a target until the time is up or the first finding.
fn fuzz(target: &'static str, longest: u32, seconds: u64) -> Result<Report, Error> {
    let corpus = format!("fuzz/corpus/{target}");
    std::fs::create_dir_all(root().join(&corpus))
        .map_err(|source| Error::Write { path: root().join(&corpus), source })?;
    let mut command = nightly(&["fuzz", "run", target, &corpus, &format!("fuzz/seeds/{target}"), "--"]);
    command.args(LIMITS).arg("-print_final_stats=1").arg(format!("-max_len={longest}"));
    command.arg(format!("-max_total_time={seconds}"));
    let dictionary = format!("fuzz/dictionaries/{target}.dict");
    if root().join(&dictionary).exists() {
        command.arg(format!("-dict={dictionary}"));
    }
    // The target of stores writes 16 MiB for each input.
    if Path::new(MEMORY).is_dir() {
        command.env("TMPDIR", MEMORY);
    }
    // Of the shell that called this: the nightly toolchain builds into a folder of its own.
    command.env_remove("CARGO_TARGET_DIR").stdout(Stdio::null()).stderr(Stdio::piped());

    let name = || format!("cargo fuzz run {target}");
    let start = |source| Error::Start { command: name(), source };
    let mut child = command.spawn().map_err(start)?;
    let mut report = Report::new(target);
    if let Some(stderr) = child.stderr.take() {
        // A target may print any bytes.
        for line in BufReader::new(stderr).split(b'\n') {
            let line = line.map_err(start)?;
            let line = String::from_utf8_lossy(&line);
            // One line for each input that is kept.
            if !line.starts_with('#') {
                eprintln!("{line}");
            }
            report.read(&line);
        }
    }
    let status = child.wait().map_err(start)?;
    if !status.success() && report.findings() == 0 {
        return Err(Error::Failed { command: name(), status });
    }
    if report.is_empty() {
        return Err(Error::NoCount { command: name() });
    }
    Ok(report)
}

/// Calls targets with files, in a test that any toolchain builds.
fn replay(target: Option<&str>, input: Option<&Path>) -> Result<(), Error> {
    let mut command = cargo(["test", "--package", "consign-fuzz-targets", "--test", "seeds", REPLAY]);
    command.args(["--", "--nocapture"]);
    let mut set = |name: &str, value: Option<OsString>| match value {
        Some(value) => drop(command.env(name, value)),
        None => drop(command.env_remove(name)),
    };
    set("CONSIGN_FUZZ_TARGET", target.map(OsString::from));
    let absolute = |path| std::path::absolute(path).map_err(|source| Error::Read { path: PathBuf::from(path), source });
    set("CONSIGN_FUZZ_INPUT", input.map(absolute).transpose()?.map(OsString::from));
    let mut passed = 0;
    for_each_line(&mut command, |line| match line.split_once("fuzz: ") {
        Some((_, result)) => {
            passed += 1;
            println!("{result}");
        }
        None => eprintln!("{line}"),
    })?;
    if passed == 0 { Err(Error::NoTest { filter: REPLAY }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::read;

    #[test]
    fn each_target_has_a_function_and_a_program() {
        let names = TARGETS.map(|(name, _)| name).to_vec();
        let source = read("fuzz/targets/src/lib.rs").unwrap();
        let (_, listed) = source.split_once("pub const TARGETS").unwrap();
        let listed = listed.lines().skip(1).map_while(|line| line.trim().strip_prefix("(\"")?.split_once('"'));
        assert_eq!(listed.map(|(name, _)| name).collect::<Vec<_>>(), names);
        let manifest: toml::Table = toml::from_str(&read("fuzz/Cargo.toml").unwrap()).unwrap();
        let programs = manifest["bin"].as_array().unwrap().iter().map(|program| program["name"].as_str().unwrap());
        assert_eq!(programs.collect::<Vec<_>>(), names);
    }
}
