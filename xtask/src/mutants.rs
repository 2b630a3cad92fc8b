//! `cargo xtask mutants`: a random sample of the mutants of one crate, each against the tests of that crate, by cargo-mutants.
//! Those that these tests miss are tried again against the programs in `tests` that are about the crate; of the broker, most the
//! other way round.
//!
//! The mutants are built in a copy of the workspace, so that an interrupted run leaves no defect in the sources. The copy stays,
//! and with it an incremental build. Doctests are not run, because cargo-nextest does not run them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use clap::Args;
use serde_json::{Value, json};

use crate::error::Error;
use crate::options::{Output, positive, random_seed};
use crate::toolchain::installed;
use crate::workspace::{cargo, output, read, root, run as run_command, write};

/// A version that is known to build with the toolchain in use; a newer one may not.
const VERSION: &str = "27.1.0";
const FOLDER: &str = "target/mutants";
/// Of each random test. The tests of `consign-codecs` would take minutes with their own numbers.
const CASES: &str = "300";
/// Programs in `tests` that are about one crate. They take longer to build, so that only what a crate's own tests miss gets there.
const PROGRAMS: [(&str, &[&str]); 3] = [
    ("consign-broker", &["broker", "durable", "model"]),
    ("consign-codecs", &["message", "payload", "poison"]),
    ("consign-core", &["message", "consumer", "sends", "dead_letters"]),
];
/// The part of the broker that its own tests are about. All else of it the programs test first.
const DURABLE: &str = "broker/src/durable/";
/// All of its own tests are unit tests, and they take minutes unless it is optimised.
const SLOW: &str = "consign-broker";
/// Only doctests of these crates use it, and without it a mutant of `core` does not rebuild all crates.
const DOCTESTS_ONLY: &str = "consign = { path = \"..\", default-features = false, features = [\"full\"] }\n";

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The package that is changed and whose tests are run
    #[arg(long, value_name = "NAME")]
    package: String,
    /// Try this many mutants
    #[arg(long, value_name = "N", default_value_t = 150, value_parser = positive)]
    sample: u64,
    /// Choose the mutants by this seed, and skip those that a run with it has caught [default: a random one]
    #[arg(long, value_name = "N", value_parser = positive)]
    seed: Option<u64>,
    /// Fail if a smaller percentage of the mutants that build is caught
    #[arg(long, value_name = "PERCENT")]
    at_least: Option<u64>,
    #[command(flatten)]
    output: Output,
}

/// What cargo-mutants reports of each mutant, by the mutant's name.
type Results = BTreeMap<String, String>;

pub(crate) fn run(options: &Options) -> Result<(), Error> {
    let Options { package, sample, .. } = options;
    installed(&mut cargo(["mutants", "--version"]), "cargo-mutants", VERSION, &[])?;
    let seed = options.seed.unwrap_or_else(random_seed);
    eprintln!("replay: cargo xtask mutants --package {package} --sample {sample} --seed {seed}");
    let tree = copy_workspace()?;
    let mutants = |arguments: &[&str]| {
        let mut command = built_as_mutants(cargo(["mutants", "--package", package]));
        command.args(arguments).current_dir(&tree);
        command
    };
    let listed: Vec<Value> =
        serde_json::from_str(&output(&mut mutants(&["--list", "--json"]))?).map_err(Error::Results)?;
    let names = listed.iter().filter_map(|mutant| mutant["name"].as_str());
    let (chosen, others) = choose(names.collect(), *sample, seed);

    let folder = format!("{FOLDER}/{package}-{seed}");
    let (kept, report) = (format!("{folder}/results.json"), format!("{folder}/mutants.out/outcomes.json"));
    let mut results = Results::new();
    if root().join(&kept).exists() {
        results = serde_json::from_str(&read(&kept)?).map_err(Error::Results)?;
    }
    // That of a run that was interrupted.
    add_outcomes(&mut results, &report)?;
    results.retain(|name, outcome| chosen.contains(&&**name) && (outcome == "CaughtMutant" || outcome == "Unviable"));
    let mut failed = None;
    let programs = programs(package);
    let all: fn(&str) -> bool = |_| true;
    let others_first: fn(&str) -> bool = |name| !programs_first(name);
    let steps = [
        (Tests::Programs(programs), programs_first as _),
        (Tests::Own, all),
        (Tests::Programs(programs), others_first),
    ];
    for (tests, is_tried) in steps {
        let is_done = |name: &str| results.get(name).is_some_and(|outcome| outcome != "MissedMutant");
        let done: BTreeSet<&str> = chosen.iter().copied().filter(|name| is_done(name) || !is_tried(name)).collect();
        if done.len() == chosen.len() || matches!(tests, Tests::Programs([])) {
            continue;
        }
        write(&kept, &json!(results).to_string())?;
        // cargo-mutants 27.1 applies its filters by name to most kinds of mutants; this list it applies to all.
        let skipped: String = others.iter().copied().chain(done).flat_map(|name| [name, "\n"]).collect();
        let _ = fs::remove_dir_all(root().join(&folder).join("mutants.out"));
        write(format!("{folder}/mutants.out/previously_caught.txt"), &skipped)?;

        let mut command = mutants(&["--iterate", "--in-place", "--all-features", "--test-tool", "nextest"]);
        command.args(["--timeout", "200", "--build-timeout", "600", "--output"]);
        command.arg(root().join(&folder));
        match tests {
            Tests::Own => {
                if package == SLOW {
                    let optimised = ["consign-broker", "crc32fast"];
                    let options = optimised.map(|name| format!("--config=profile.dev.package.{name}.opt-level=1"));
                    let arguments = options.into_iter().chain(["--lib".to_owned()]);
                    command.args(arguments.map(|argument| format!("--cargo-arg={argument}")));
                }
            }
            Tests::Programs(programs) => {
                let arguments = programs.iter().map(|program| format!("--test={program}"));
                // That of cargo-mutants 27.1 tests the crate that is changed, whatever the mutants are tested by.
                let mut baseline =
                    built_as_mutants(cargo(["nextest", "run", "--package", "consign", "--all-features"]));
                run_command(baseline.args(arguments.clone()).current_dir(&tree))?;
                command.args(["--baseline", "skip", "--test-package", "consign"]);
                command.args(arguments.map(|argument| format!("--cargo-arg={argument}")));
            }
        }
        command.args(["--", "--fail-fast"]);
        // A survivor or a timeout is a failure of cargo-mutants too, and in its report, as a failure without a mutant is.
        failed = run_command(&mut command).err();
        add_outcomes(&mut results, &report)?;
        write(&kept, &json!(results).to_string())?;
    }
    match failed {
        Some(error) if results.len() < chosen.len() => Err(error),
        _ => summary(options, seed, listed.len(), &results),
    }
}

/// One environment for all builds of the copy, so that none of them builds again what another one has built. A mutant that
/// breaks a lint compiles, and random tests run few cases.
fn built_as_mutants(mut command: Command) -> Command {
    command.env("CARGO_INCREMENTAL", "1").env("CARGO_PROFILE_DEV_DEBUG", "0");
    command.env("CARGO_ENCODED_RUSTFLAGS", "--cap-lints=warn").env("CONSIGN_CASES", CASES);
    command
}

/// What a mutant is tested by.
enum Tests {
    /// The tests of its crate.
    Own,
    /// Programs in `tests`.
    Programs(&'static [&'static str]),
}

fn programs(package: &str) -> &'static [&'static str] {
    PROGRAMS.iter().find(|(name, _)| *name == package).map_or(&[], |(_, programs)| programs)
}

fn programs_first(mutant: &str) -> bool {
    mutant.starts_with("broker/") && !mutant.starts_with(DURABLE)
}

/// Copies all files of the workspace that git does not ignore and that have changed, so that cargo builds no others again, and
/// removes those of an earlier copy that the workspace no longer has.
fn copy_workspace() -> Result<PathBuf, Error> {
    let tree = root().join(FOLDER).join("tree");
    let list = format!("{FOLDER}/tree.txt");
    let mut git = Command::new("git");
    git.args(["ls-files", "--cached", "--others", "--exclude-standard"]).current_dir(root()).stdin(Stdio::null());
    let files = output(&mut git)?;
    let copied = if root().join(&list).exists() { read(&list)? } else { String::new() };
    let present: BTreeSet<&str> = files.lines().filter(|path| root().join(path).exists()).collect();
    for gone in copied.lines().filter(|path| !present.contains(path)) {
        let _ = fs::remove_file(tree.join(gone));
    }
    write(&list, &files)?;
    for path in files.lines() {
        // A file that is deleted but still in the index.
        let Ok(mut bytes) = fs::read(root().join(path)) else { continue };
        if path.ends_with("Cargo.toml")
            && let Ok(text) = std::str::from_utf8(&bytes)
        {
            bytes = text.replace(DOCTESTS_ONLY, "").into_bytes();
        }
        let to = tree.join(path);
        if fs::read(&to).is_ok_and(|old| old == bytes) {
            continue;
        }
        let folder = to.parent().map_or(Ok(()), fs::create_dir_all);
        folder.and_then(|()| fs::write(&to, bytes)).map_err(|source| Error::Write { path: to, source })?;
    }
    Ok(tree)
}

/// Splits the names into a random sample and the others. A larger sample by the same seed includes a smaller one.
fn choose(mut names: Vec<&str>, sample: u64, seed: u64) -> (BTreeSet<&str>, Vec<&str>) {
    let sample = usize::try_from(sample).unwrap_or(usize::MAX).min(names.len());
    let mut random = SplitMix(seed);
    for place in 0..sample {
        let left = names.len() - place;
        names.swap(place, place + random.below(left));
    }
    let others = names.split_off(sample);
    (names.into_iter().collect(), others)
}

/// The generator `SplitMix64`.
struct SplitMix(u64);

impl SplitMix {
    #[expect(clippy::cast_possible_truncation, reason = "the low bits are as random as all")]
    fn below(&mut self, end: usize) -> usize {
        self.next() as usize % end
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

/// Adds the outcomes in a report of cargo-mutants, if there is one.
fn add_outcomes(results: &mut Results, report: &str) -> Result<(), Error> {
    if !root().join(report).exists() {
        return Ok(());
    }
    let report: Value = serde_json::from_str(&read(report)?).map_err(Error::Results)?;
    for outcome in report["outcomes"].as_array().into_iter().flatten() {
        // The run without a mutant has no name.
        if let (Some(name), Some(summary)) =
            (outcome["scenario"]["Mutant"]["name"].as_str(), outcome["summary"].as_str())
        {
            results.insert(name.to_owned(), summary.to_owned());
        }
    }
    Ok(())
}

/// Prints what became of the mutants, and fails if too few are caught. A mutant without an end is caught by its timeout.
fn summary(options: &Options, seed: u64, listed: usize, results: &Results) -> Result<(), Error> {
    let of = |kind: &str| results.iter().filter(|(_, outcome)| **outcome == kind).map(|(name, _)| &**name).collect();
    let [caught, missed, timeouts, unviable]: [Vec<&str>; 4] =
        ["CaughtMutant", "MissedMutant", "Timeout", "Unviable"].map(of);
    let noticed = caught.len() + timeouts.len();
    // Without a mutant that builds, nothing is missed.
    let percent = (100 * noticed).checked_div(noticed + missed.len()).unwrap_or(100) as u64;
    if options.output.json {
        let counts = json!({ "package": options.package, "seed": seed, "mutants": listed, "caught": caught.len(),
            "timeouts": timeouts.len(), "unviable": unviable.len(), "missed": missed, "percent": percent });
        println!("{counts}");
    } else {
        for name in &missed {
            println!("missed: {name}");
        }
        println!(
            "{}: seed {seed}, {} of {listed} mutants: {} caught, {} missed, {} timeouts, {} unviable; {percent} %",
            options.package,
            results.len(),
            caught.len(),
            missed.len(),
            timeouts.len(),
            unviable.len()
        );
    }
    match options.at_least {
        Some(least) if percent < least => Err(Error::Survived { percent, least }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_larger_sample_includes_a_smaller_one_and_another_seed_chooses_others() {
        let names: Vec<_> = (0..500).map(|number| format!("mutant {number}")).collect();
        let names = || names.iter().map(String::as_str).collect::<Vec<_>>();
        let (small, others) = choose(names(), 20, 1);
        assert_eq!((small.len(), others.len()), (20, 480));
        assert!(small.is_subset(&choose(names(), 150, 1).0));
        assert_ne!(small, choose(names(), 20, 2).0);
        assert_eq!(choose(names(), 1_000, 1).0.len(), 500);
    }
}
