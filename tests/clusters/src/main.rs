//! `clusters run --transport NAME --faults N --seed S --code COMMIT --history DIR [--json]`: faults of a cluster.
//!
//! `cargo xtask clusters` calls it. A run consists of rounds with queues of their own. After the faults of a round its history
//! is checked, and its results are added to a file of DIR. `clusters client ...` is the process of one client.
#![forbid(unsafe_code)]

mod check;
mod clients;
mod clock;
mod cluster;
mod epmd;
mod faults;
mod history;
mod pauses;
mod progress;
mod report;
mod run;
mod servers;
mod workload;

use std::{path::PathBuf, process::ExitCode};

use tokio::signal::unix::{SignalKind, signal};
use tower::BoxError;

use crate::{run::Run, servers::Servers, workload::Client};

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let ended = match arguments.split_first() {
        Some((word, options)) if word == "run" => run(options).await,
        Some((word, options)) if word == "client" => client(options).await,
        _ => Err("clusters run --transport NAME --faults N --seed S --code COMMIT --history DIR [--json]".into()),
    };
    match ended {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {}", workload::chain(&*error));
            ExitCode::FAILURE
        }
    }
}

/// The value of an option.
fn value<'a>(options: &'a [String], name: &str) -> Result<&'a str, BoxError> {
    let position = options.iter().position(|option| option == name);
    let value = position.and_then(|position| options.get(position + 1));
    Ok(value.ok_or_else(|| format!("{name} is missing"))?)
}

async fn run(options: &[String]) -> Result<ExitCode, BoxError> {
    let transport = value(options, "--transport")?;
    let servers = Servers::ALL.into_iter().find(|servers| servers.name() == transport);
    let run = Run {
        servers: servers.ok_or("a transport is nats, rabbitmq or postgres")?,
        faults: value(options, "--faults")?.parse()?,
        seed: value(options, "--seed")?.parse()?,
        code: value(options, "--code")?.into(),
        folder: PathBuf::from(value(options, "--history")?),
    };
    let mut terminated = signal(SignalKind::terminate())?;
    // What was started is stopped when it is dropped.
    let report = tokio::select! {
        report = run.run() => report?,
        _ = terminated.recv() => return Err("terminated".into()),
        _ = tokio::signal::ctrl_c() => return Err("interrupted".into()),
    };
    if options.iter().any(|option| option == "--json") {
        println!("{}", report.json(transport));
    } else {
        print!("{}", report.page(transport));
    }
    let passes = report.violations().is_empty() && report.faults() >= run.faults;
    Ok(if passes { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn client(options: &[String]) -> Result<ExitCode, BoxError> {
    let client = Client {
        url: value(options, "--url")?.into(),
        effects: value(options, "--effects")?.into(),
        name: value(options, "--name")?.into(),
        number: value(options, "--number")?.parse()?,
        folder: value(options, "--folder")?.into(),
        detects_duplicates: options.iter().any(|option| option == "--detects-duplicates"),
    };
    client.run().await?;
    Ok(ExitCode::SUCCESS)
}
