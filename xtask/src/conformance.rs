//! `cargo xtask conformance`: the suite of all transports on one of them.
//!
//! It runs the test `the_table_is_up_to_date` of the test binary `conformance` in the transport's package, which writes
//! the column in docs/conformance.md if all passed, and a report for this subcommand.

use std::fs;

use clap::Args;
use serde_json::Value;

use crate::error::Error;
use crate::options::Output;
use crate::workspace::{cargo, read, root, run as run_command};

const EMBEDDED: &str = "embedded";
/// The embedded broker on a disk.
const DURABLE: &str = "durable";
/// The transport of docs/writing-a-transport.md.
const EXAMPLE: &str = "example";
/// The transport of AMQP 1.0 on RabbitMQ.
pub(crate) const AMQP10_ON_RABBITMQ: &str = "amqp10-rabbitmq";
const TEST: &str = "the_table_is_up_to_date";
const TEST_ON_RABBITMQ: &str = "the_table_is_up_to_date_on_rabbitmq";
const TEST_ON_A_DISK: &str = "the_table_is_up_to_date_on_a_disk";
/// What the test takes the path of the report from.
const REPORT_VARIABLE: &str = "CONSIGN_CONFORMANCE_REPORT";

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Run the suite on this transport: `embedded`, `durable`, `example`, `amqp10`, `amqp10-rabbitmq`, `nats`, `postgres`,
    /// `rabbitmq` or `servicebus`
    #[arg(long, value_name = "NAME", default_value = EMBEDDED)]
    pub(crate) transport: String,
    #[command(flatten)]
    pub(crate) output: Output,
}

pub(crate) fn run(options: &Options) -> Result<(), Error> {
    let transport = &*options.transport;
    let test = match transport {
        DURABLE => TEST_ON_A_DISK,
        AMQP10_ON_RABBITMQ => TEST_ON_RABBITMQ,
        _ => TEST,
    };
    let package = package(transport)?;
    let report = format!("target/{package}-report.json");
    // One that an earlier run has left says nothing.
    let _ = fs::remove_file(root().join(&report));
    let mut command = cargo(["test", "--package", &package, "--test", "conformance", test, "--", "--exact"]);
    let ran = run_command(command.env(REPORT_VARIABLE, root().join(&report)));

    let Ok(report) = read(report) else { return ran.and(Err(Error::NoReport(transport.into()))) };
    let report: Value = serde_json::from_str(&report).map_err(Error::Report)?;
    if options.output.json {
        println!("{report}");
    } else {
        print(&report);
    }
    as_declared(&report)?;
    ran
}

fn as_declared(report: &Value) -> Result<(), Error> {
    match report["failed"].as_u64() {
        Some(0) => Ok(()),
        Some(failed) => Err(Error::Conformance(failed)),
        None => Err(Error::NoNumber("failed")),
    }
}

/// The package whose tests run the suite on this transport.
pub(crate) fn package(transport: &str) -> Result<String, Error> {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if transport.is_empty() || !transport.bytes().all(allowed) {
        return Err(Error::NoTransport(transport.into()));
    }
    Ok(match transport {
        // The suite depends on the embedded broker, so its tests run it.
        EMBEDDED | DURABLE => "consign-conformance".into(),
        EXAMPLE => "consign-example-transport".into(),
        AMQP10_ON_RABBITMQ => "consign-amqp10".into(),
        other => format!("consign-{other}"),
    })
}

fn print(report: &Value) {
    for case in report["cases"].as_array().into_iter().flatten() {
        if let Some(why) = case["why"].as_str() {
            let [capability, name, outcome] =
                ["capability", "name", "outcome"].map(|key| case[key].as_str().unwrap_or_default());
            println!("{capability} {name}: {outcome}: {why}");
        }
    }
    for complaint in report["complaints"].as_array().into_iter().flatten() {
        println!("{}", complaint.as_str().unwrap_or_default());
    }
    let number = |key: &str| report[key].as_u64().unwrap_or_default();
    let name = report["transport"].as_str().unwrap_or_default();
    let (passed, failed, not_run) = (number("passed"), number("failed"), number("not_run"));
    println!("{name}: {passed} case(s) are as declared, {failed} are not, {not_run} were not run");
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_report_counts_what_failed() {
        assert!(as_declared(&json!({ "failed": 0 })).is_ok());
        for (report, said) in [(json!({ "failed": 2 }), "2 case(s)"), (json!({ "passed": 3 }), "no number `failed`")] {
            let error = as_declared(&report).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn a_transport_has_a_package() {
        assert_eq!(package("embedded").unwrap(), "consign-conformance");
        assert_eq!(package("durable").unwrap(), "consign-conformance");
        assert_eq!(package("example").unwrap(), "consign-example-transport");
        assert_eq!(package("rabbitmq").unwrap(), "consign-rabbitmq");
        assert_eq!(package("amqp10").unwrap(), "consign-amqp10");
        assert_eq!(package("servicebus").unwrap(), "consign-servicebus");
        assert_eq!(package("amqp10-rabbitmq").unwrap(), "consign-amqp10");
        for name in ["", "a b", "../a", "Rabbit"] {
            assert!(package(name).is_err(), "{name}");
        }
    }
}
