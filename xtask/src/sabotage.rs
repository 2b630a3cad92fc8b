//! `cargo xtask sabotage`: tests a library that has one defect at a time, and expects a test to fail, which passes without.
//!
//! It is built once, with `--cfg sabotage`, in a folder of its own so that other builds stay warm. The environment chooses the
//! defect: `broker/src/sabotage.rs` and `core/src/sabotage.rs`.

use std::collections::BTreeSet;
use std::env;

use serde_json::json;

use crate::error::Error;
use crate::options::Output;
use crate::workspace::{cargo, for_each_line};

/// Chooses the defect.
const DEFECT: &str = "CONSIGN_SABOTAGE";

/// A defect, and the test that has to notice it.
struct Sabotage {
    /// As `Defect` in the library has it.
    defect: &'static str,
    /// Arguments of `cargo test` that choose the test.
    test: &'static [&'static str],
}

const KILL: &[&str] =
    &["--features", "full", "--test", "durable", "a_killed_process_loses_nothing_that_it_acknowledged"];

/// Needs strace.
const RECORDED: &[&str] =
    &["--features", "full", "--test", "durable", "acknowledged_messages_are_in_every_image_of_the_recorded_calls"];

const POWER_LOSS: &[&str] =
    &["--package", "consign-broker", "--features", "durable", "--lib", "power_loss_loses_no_batch_and_tears_none"];

const NAMES: &[&str] = &[
    "--package",
    "consign-broker",
    "--features",
    "durable",
    "--lib",
    "a_crash_at_any_call_of_a_life_leaves_names_that_open",
];

const SABOTAGES: &[Sabotage] = &[
    Sabotage { defect: "SkipSync", test: POWER_LOSS },
    Sabotage {
        defect: "SkipFolderSync",
        test: &[
            "--package",
            "consign-broker",
            "--features",
            "durable",
            "--lib",
            "a_crash_while_a_store_is_created_loses_nothing_that_is_acknowledged_later",
        ],
    },
    Sabotage { defect: "SkipHeadSync", test: POWER_LOSS },
    Sabotage { defect: "SkipSegmentSync", test: POWER_LOSS },
    Sabotage { defect: "SkipSegmentNameSync", test: NAMES },
    Sabotage { defect: "SkipRecoverySync", test: NAMES },
    Sabotage { defect: "SkipSync", test: RECORDED },
    Sabotage { defect: "SkipFolderSync", test: RECORDED },
    Sabotage { defect: "AcknowledgeBeforeSync", test: KILL },
    Sabotage { defect: "DeadLetterInTwoSteps", test: KILL },
    Sabotage { defect: "ForgetIds", test: KILL },
    Sabotage {
        defect: "IgnoreSyncError",
        test: &["--package", "consign-broker", "--features", "durable", "--lib", "a_failed_sync_is_final"],
    },
    Sabotage {
        defect: "TrustCache",
        test: &[
            "--package",
            "consign-broker",
            "--features",
            "durable",
            "--lib",
            "what_a_failed_sync_left_in_the_cache_is_written_again",
        ],
    },
    Sabotage {
        defect: "TruncateAtDamage",
        test: &[
            "--package",
            "consign-broker",
            "--features",
            "durable",
            "--lib",
            "the_commit_before_does_not_come_back",
        ],
    },
    Sabotage {
        defect: "ForgetDeliveryCount",
        test: &["--features", "full", "--test", "durable", "every_state_of_a_message_survives"],
    },
    Sabotage {
        defect: "IgnoreLockToken",
        test: &[
            "--features",
            "full",
            "--test",
            "broker",
            "a_lease_does_not_settle_the_message_that_took_its_place_in_memory",
        ],
    },
    Sabotage {
        defect: "ExpireByUtc",
        test: &["--features", "full", "--test", "broker", "utc_that_is_set_does_not_move_the_window"],
    },
    Sabotage {
        defect: "AwaitAfterLock",
        test: &[
            "--features",
            "full",
            "--test",
            "broker",
            "a_receive_dropped_at_any_poll_leaves_no_lock_and_counts_nothing",
        ],
    },
    Sabotage {
        defect: "DropForgets",
        test: &["--features", "full", "--test", "broker", "a_delivery_dropped_outside_a_runtime_is_back_at_once"],
    },
    Sabotage {
        defect: "KeepPrefetched",
        test: &["--features", "full", "--test", "consumer", "no_lock_is_left_and_nothing_is_lost"],
    },
    Sabotage {
        defect: "ReserveInReadiness",
        test: &["--features", "full", "--test", "middleware", "an_idle_ready_clone_and_an_unpolled_call_hold_nothing"],
    },
    Sabotage {
        defect: "SkipDepthCheck",
        test: &[
            "--package",
            "consign-codecs",
            "--features",
            "full",
            "--test",
            "formats",
            "depth_64_is_accepted_and_65_refused_by_each_self_describing_codec",
        ],
    },
];

pub(crate) fn run(output: &Output) -> Result<(), Error> {
    let mut missed = Vec::new();
    // A test that fails anyway notices nothing.
    for test in tests() {
        let by = test.last().copied().unwrap_or_default();
        eprintln!("without a defect: {by}");
        if fails(test, None)? {
            return Err(Error::FailsAnyway(by));
        }
    }
    for sabotage in SABOTAGES {
        let is_noticed = fails(sabotage.test, Some(sabotage.defect))?;
        let by = sabotage.test.last().copied().unwrap_or_default();
        eprintln!("{}: {} by {by}", sabotage.defect, if is_noticed { "caught" } else { "SURVIVED, not caught" });
        if !is_noticed {
            missed.push(sabotage.defect);
        }
    }
    if output.json {
        println!("{}", json!({ "tried": SABOTAGES.len(), "missed": missed }));
    } else {
        println!("{} of {} are caught", SABOTAGES.len() - missed.len(), SABOTAGES.len());
    }
    if missed.is_empty() { Ok(()) } else { Err(Error::Unnoticed(missed)) }
}

/// Each test of the table once.
fn tests() -> BTreeSet<&'static [&'static str]> {
    SABOTAGES.iter().map(|sabotage| sabotage.test).collect()
}

/// Whether a test fails, with a defect or without.
fn fails(test: &'static [&'static str], defect: Option<&str>) -> Result<bool, Error> {
    let flags = env::var("RUSTFLAGS").unwrap_or_default() + " --cfg sabotage";
    let mut command = cargo(["test", "--quiet", "--target-dir", "target/sabotage"]);
    command.args(["--profile", "checked"]).env("RUSTFLAGS", flags.trim_start()).env_remove(DEFECT);
    // Without strace a test would pass that has done nothing.
    command.env("CONSIGN_LEAVE_NOTHING_OUT", "1");
    if let Some(defect) = defect {
        command.env(DEFECT, defect);
    }
    let (mut passed, mut failed) = (0, 0);
    let outcome = for_each_line(command.args(test), |line| {
        if let Some((more_passed, more_failed)) = summary(line) {
            passed += more_passed;
            failed += more_failed;
        }
    });
    match outcome {
        Ok(()) if passed > 0 => Ok(false),
        Ok(()) => Err(Error::NoTest { filter: test.last().copied().unwrap_or_default() }),
        // Not because it does not build.
        Err(Error::Failed { .. }) if failed > 0 => Ok(true),
        Err(error) => Err(error),
    }
}

/// The tests that passed and those that failed, when the line is a test binary's summary.
fn summary(line: &str) -> Option<(u32, u32)> {
    let (_, counts) = line.split_once("test result: ")?.1.split_once(". ")?;
    let (passed, rest) = counts.split_once(" passed; ")?;
    Some((passed.parse().ok()?, rest.split_once(" failed")?.0.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_counts_both() {
        let line = |outcome: &str, counts: &str| format!("test result: {outcome}. {counts}; 0 ignored; 0 measured");
        assert_eq!(summary(&line("ok", "12 passed; 0 failed")), Some((12, 0)));
        assert_eq!(summary(&line("FAILED", "1 passed; 2 failed")), Some((1, 2)));
        assert_eq!(summary("test it_is ... ok"), None);
    }
}
