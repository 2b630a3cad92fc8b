//! `foreign-formats FOLDER [--json]`: messages of producers in Python and Node read by this library, and its messages read by
//! them, through the servers of `scripts/brokers`.
//!
//! FOLDER is what `scripts/foreign` prints. Each case prints a line. The process fails if a case does.
#![forbid(unsafe_code)]

mod cases;
mod cloud_events;
mod encodings;
mod encrypted;
mod environment;
mod nats;
mod rabbitmq;
mod traces;

use std::{process::ExitCode, time::Duration};

use futures_util::{StreamExt, stream};
use tower::BoxError;

use crate::{
    cases::{CASES, Case},
    environment::Environment,
};

/// Longer than any case takes.
const LONG: Duration = Duration::from_secs(60);
/// Most of a case is the start of a program.
const AT_ONCE: usize = 4;

/// What became of a case.
enum Outcome {
    Passed,
    Failed(BoxError),
}

#[tokio::main]
async fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(folder) = arguments.next() else {
        eprintln!("foreign-formats FOLDER [--json]");
        return ExitCode::from(2);
    };
    let json = arguments.next().as_deref() == Some("--json");
    let env = match Environment::new(folder.into()).await {
        Ok(env) => env,
        Err(error) => {
            eprintln!("{error}; scripts/brokers starts the servers");
            return ExitCode::FAILURE;
        }
    };
    let outcomes: Vec<_> = stream::iter(CASES).map(|case| run(case, &env)).buffered(AT_ONCE).collect().await;
    let failed = outcomes.iter().filter(|(_, outcome)| matches!(outcome, Outcome::Failed(_))).count();
    if json {
        println!("{}", as_json(&outcomes));
    } else {
        for (case, outcome) in &outcomes {
            match outcome {
                Outcome::Passed => println!("pass  {}", case.name),
                Outcome::Failed(error) => println!("FAIL  {}: {error}", case.name),
            }
        }
        println!("{} case(s), {failed} failed", outcomes.len());
    }
    env.close().await;
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

async fn run<'c>(case: &'c Case, env: &Environment) -> (&'c Case, Outcome) {
    let outcome = match tokio::time::timeout(LONG, (case.run)(env)).await {
        Ok(Ok(())) => Outcome::Passed,
        Ok(Err(error)) => Outcome::Failed(error),
        Err(elapsed) => Outcome::Failed(elapsed.into()),
    };
    (case, outcome)
}

fn as_json(outcomes: &[(&Case, Outcome)]) -> serde_json::Value {
    let case = |(case, outcome): &(&Case, Outcome)| {
        let (outcome, reason) = match outcome {
            Outcome::Passed => ("passed", None),
            Outcome::Failed(error) => ("failed", Some(error.to_string())),
        };
        serde_json::json!({ "case": case.name, "outcome": outcome, "reason": reason })
    };
    outcomes.iter().map(case).collect()
}
