//! `foreign-convert FOLDER [--json]`: messages of this library in Amazon SQS and Kafka, by the clients of Rust, beside boto3 and
//! confluent-kafka of Python. The servers are that of moto and the mock cluster of librdkafka.
//!
//! FOLDER is what `scripts/foreign` prints. Each case prints a line. The process fails if a case does.
#![forbid(unsafe_code)]

mod environment;
mod kafka;
mod sqs;
#[path = "../../suite.rs"]
mod suite;
mod wrap_rdkafka;
mod wrap_sqs;

use std::process::ExitCode;

use crate::{environment::Environment, suite::Case};

macro_rules! cases {
    ($($name:literal: $module:ident :: $run:ident $(( $($argument:expr),+ ))?;)*) => {
        &[$(Case { name: $name, run: |env| Box::pin($module::$run(env $(, $($argument),+)?)) }),*]
    };
}

const CASES: &[Case<Environment>] = cases! {
    "boto3 sends to a standard queue": sqs::from_python(false);
    "boto3 sends to a FIFO queue": sqs::from_python(true);
    "boto3 reads from a standard queue": sqs::to_python(false);
    "boto3 reads from a FIFO queue": sqs::to_python(true);
    "boto3 reads a dead letter": sqs::dead_letter;
    "SQS: every property and every body": sqs::everything;
    "SQS: a batch": sqs::batch;
    "SQS: deliveries are counted, and a message is settled": sqs::settled;
    "SQS: duplicates are dropped": sqs::duplicates;
    "SQS: a delay": sqs::delayed;
    "SQS: errors": sqs::errors;
    "SQS: the loop of the page": sqs::wrapped;

    "confluent-kafka sends": kafka::from_python;
    "confluent-kafka reads": kafka::to_python;
    "confluent-kafka sends a tombstone": kafka::tombstone_from_python;
    "confluent-kafka reads a tombstone": kafka::tombstone_to_python;
    "confluent-kafka reads a dead letter": kafka::dead_letter;
    "CloudEvents of Python, Kafka binding": kafka::event_from_python;
    "Python reads CloudEvents, Kafka binding": kafka::event_to_python;
    "Kafka: every property and every body": kafka::everything;
    "Kafka: an abandoned record is counted": kafka::abandoned;
    "Kafka: errors": kafka::errors;
    "Kafka: the loop of the page": kafka::wrapped;
};

#[tokio::main]
async fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(folder) = arguments.next() else {
        eprintln!("foreign-convert FOLDER [--json]");
        return ExitCode::from(2);
    };
    let json = arguments.next().as_deref() == Some("--json");
    match Environment::new(folder.into()).await {
        Ok(env) => suite::run_all(CASES, &env, json).await,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
