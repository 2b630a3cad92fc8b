//! One queue, every format, nothing lost.
//!
//! Producers of several generations write recorded webhook events into one queue: JSON, `MessagePack`, CBOR and bincode,
//! declared rightly, wrongly or not at all, and among them noise and empty bodies. One stack handles them. What can be
//! read is read, as the chain of codecs says; the rest is in the dead-letter sub-queue after one delivery, with the reason
//! and what was tried. In the end every message is accounted for by its `MessageId`.
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
mod plan;
mod report;
mod run;

use std::{process::ExitCode, thread::available_parallelism};

use crate::{
    failure::Failure,
    options::{HELP, Options},
    plan::Plan,
    report::Report,
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
    runtime.block_on(run::run(plan, codecs, threads, async {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(messages: usize, seed: u64, interrupt: impl Future<Output = ()>) -> Report {
        let codecs = handlers::codecs().unwrap();
        let plan = Plan::new(events::load(None, &codecs).unwrap(), messages, seed);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(run::run(plan, codecs, 2, interrupt)).unwrap()
    }

    #[test]
    fn every_message_is_accounted_for() {
        let report = run(2_007, 7, std::future::pending());
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

    #[test]
    fn the_object_has_the_promised_fields() {
        let report = serde_json::to_value(run(100, 1, std::future::pending())).unwrap();
        for field in ["sent", "handled", "dead_lettered", "lost", "by_format", "messages_per_second", "peak_rss_bytes"]
        {
            assert!(report.get(field).is_some(), "{field}");
        }
    }
}
