//! `foreign-languages FOLDER [--json]`: the scripts of `docs/other-languages.md`, beside a service of this library, through the
//! servers of `scripts/brokers`.
//!
//! FOLDER is what `scripts/foreign` prints. Each case prints a line. The process fails if a case does.
#![forbid(unsafe_code)]

mod amqp10;
mod cases;
mod environment;
mod page;
mod service;
#[path = "../../suite.rs"]
mod suite;

use std::process::ExitCode;

use crate::{cases::CASES, environment::Environment};

#[tokio::main]
async fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(folder) = arguments.next() else {
        eprintln!("foreign-languages FOLDER [--json]");
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
    let outcome = suite::run_all(CASES, &env, json).await;
    env.close().await;
    outcome
}
