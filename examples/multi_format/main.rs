//! One queue, every format, nothing lost.
//!
//! Producers of several generations write recorded webhook events into one queue: JSON, `MessagePack`, CBOR and bincode,
//! declared rightly, wrongly or not at all, and among them noise and empty bodies. One stack handles them. What can be
//! read is read, as the chain of codecs says; the rest is in the dead-letter sub-queue after one delivery, with the reason
//! and what was tried. In the end every message is accounted for by its `MessageId`.
//!
//! With `--store` all of it is on a disk, and a run that was killed goes on when it is started again.
//!
//! ```sh
//! cargo run --release --features full --example multi_format -- --help
//! ```

#![expect(unreachable_pub, reason = "a program is not reached from outside")]

mod events;
mod failure;
mod format;
mod handlers;
mod ledger;
mod options;
mod payloads;
mod place;
mod plan;
mod report;
mod run;
mod store;

use std::{
    collections::BTreeMap, future::pending, path::Path, process::ExitCode, sync::Arc, thread::available_parallelism,
};

use consign::codecs::{CodecSet, Codecs};

use crate::{
    failure::Failure,
    ledger::Ledger,
    options::{HELP, Options},
    plan::Plan,
    report::Report,
    store::Store,
};

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(Some(options)) => options,
        Ok(None) => {
            println!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(failure) => {
            eprintln!("multi_format: {failure}");
            return ExitCode::from(2);
        }
    };
    match report(&options) {
        Ok(report) => {
            match serde_json::to_string(&report) {
                Ok(object) if options.json => println!("{object}"),
                _ => println!("{report}"),
            }
            if report.ok { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(failure) => {
            eprintln!("multi_format: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn report(options: &Options) -> Result<Report, Failure> {
    let threads = available_parallelism().map_or(2, |threads| threads.get().clamp(2, 8));
    let codecs = handlers::codecs()?;
    let events = events::load(options.input.as_deref(), &codecs)?;
    let plan = Plan::new(events, options.messages, options.seed);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()?;
    let ledger = Arc::new(Ledger::new(plan, options.store.is_some()));
    runtime.block_on(run_in(options.store.as_deref(), ledger, codecs, threads, async {
        if tokio::signal::ctrl_c().await.is_err() {
            pending::<()>().await;
        }
    }))
}

/// Runs in memory, or in a folder, where it goes on where an earlier run has ended.
async fn run_in<C: CodecSet>(
    folder: Option<&Path>,
    ledger: Arc<Ledger>,
    codecs: Codecs<C>,
    threads: usize,
    interrupt: impl Future<Output = ()>,
) -> Result<Report, Failure> {
    let (store, before) = match folder {
        Some(path) => Store::open(path, &ledger).await?,
        None => (Store::in_memory()?, BTreeMap::new()),
    };
    run::run(store, before, ledger, codecs, threads, interrupt).await
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead, BufReader},
        process::{Command, Stdio},
        time::Duration,
    };

    use super::*;

    fn run(messages: usize, seed: u64, interrupt: impl Future<Output = ()>) -> Report {
        run_to_end(None, messages, seed, |_| interrupt).unwrap()
    }

    fn run_to_end<I: Future<Output = ()>>(
        folder: Option<&Path>,
        messages: usize,
        seed: u64,
        interrupt: impl FnOnce(Arc<Ledger>) -> I,
    ) -> Result<Report, Failure> {
        let codecs = handlers::codecs()?;
        let ledger = Arc::new(Ledger::new(Plan::new(events::load(None, &codecs)?, messages, seed), folder.is_some()));
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        runtime.block_on(run_in(folder, Arc::clone(&ledger), codecs, 2, interrupt(ledger)))
    }

    #[test]
    fn every_message_is_accounted_for() {
        let report = run(2_007, 7, pending());
        assert!(report.ok, "seed 7; --messages 2007 --seed 7\n{report}");
        assert_eq!((report.sent, report.lost), (2_007, 0));
        for (format, counts) in &report.by_format {
            assert_eq!((counts.sent, counts.handled + counts.dead_lettered), (223, 223), "{format}");
        }
        let of = |format| &report.by_format[format];
        assert_eq!((of("bincode").handled, of("bincode").rescued), (223, 0));
        assert_eq!((of("json undeclared").rescued, of("msgpack as json").rescued), (223, 223));
        assert_eq!(of("empty").dead_lettered, 223);
        assert!(of("noise").dead_lettered > 200);
        let empty = "json exact EmptyBody, msgpack fallback EmptyBody, cbor fallback EmptyBody";
        let empty = report.dead_letters.iter().find(|letters| letters.tried == empty).unwrap();
        assert_eq!((&*empty.reason, empty.messages), ("DeserializationFailed", 223));
    }

    #[test]
    fn an_interrupted_run_handles_what_was_sent() {
        let report = run(1_000_000, 1, async {});
        assert!(report.ok, "{report}");
        assert!(report.sent < 1_000_000 && report.handled + report.dead_lettered == report.sent);
    }

    const MESSAGES: usize = 600;
    const SLOTS: u64 = 3 * 16;
    /// Where the store of a run is that is to be killed.
    const FOLDER: &str = "CONSIGN_MULTI_FORMAT_STORE";

    /// Says all the time how many messages it has entered.
    fn run_and_say(folder: &Path) {
        let say = |ledger: Arc<Ledger>| async move {
            loop {
                println!("entered {}", ledger.books().entered());
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        run_to_end(Some(folder), MESSAGES, 1, say).unwrap();
        unreachable!("it is killed");
    }

    /// Starts a run and kills it when it has entered so many. Answers how many it has said.
    fn run_and_kill(folder: &Path, entries: u64) -> u64 {
        let this_test = ["--exact", "tests::a_run_that_was_killed_goes_on", "--nocapture"];
        let mut command = Command::new(std::env::current_exe().unwrap());
        let mut child = command.args(this_test).env(FOLDER, folder).stdout(Stdio::piped()).spawn().unwrap();
        let mut entered = 0;
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            let line = line.unwrap();
            let Some(number) = line.rsplit_once("entered ").and_then(|(_, number)| number.parse().ok()) else {
                continue;
            };
            entered = number;
            if number >= entries {
                child.kill().unwrap();
            }
        }
        assert!(!child.wait().unwrap().success());
        entered
    }

    #[test]
    fn a_run_that_was_killed_goes_on() {
        if let Some(folder) = std::env::var_os(FOLDER) {
            return run_and_say(folder.as_ref());
        }
        let folder = tempfile::tempdir().unwrap();
        for entries in [1, 100, 300] {
            let entered = run_and_kill(folder.path(), entries);
            assert!((entries..MESSAGES as u64).contains(&entered), "it was killed in the middle: {entered}");
        }
        let all = || run_to_end(Some(folder.path()), MESSAGES, 1, |_| pending()).unwrap();
        let report = all();
        assert!(report.ok, "{report}");
        assert_eq!((report.sent, report.lost, report.duplicates), (MESSAGES as u64, 0, 0));
        // What was entered and not written, or written and not settled, was in a slot of the three consumers.
        assert!(report.resumed + SLOTS >= 300 && report.repeated <= SLOTS, "{report}");
        let again = all();
        assert!(again.ok, "{again}");
        assert_eq!((again.sent, again.resumed, again.repeated), (MESSAGES as u64, MESSAGES as u64, 0));
        let other = run_to_end(Some(folder.path()), MESSAGES, 2, |_| pending());
        assert!(matches!(other, Err(Failure::OtherRun { .. })), "{other:?}");
    }

    #[test]
    fn the_object_has_the_promised_fields() {
        let report = serde_json::to_value(run(100, 1, pending())).unwrap();
        for field in ["sent", "handled", "dead_lettered", "lost", "by_format", "messages_per_second", "peak_rss_bytes"]
        {
            assert!(report.get(field).is_some(), "{field}");
        }
    }
}
