//! `cargo xtask faults`: faults at every point of a pipeline whose handled ids and effects are in a real PostgreSQL, and,
//! with `--transport NAME`, faults between a transport and its real server.

use clap::Args;
use serde_json::{Value, json};

use crate::conformance::{AMQP10_ON_RABBITMQ, package};
use crate::error::Error;
use crate::model::numbers;
use crate::options::{Output, positive};
use crate::workspace::{cargo, for_each_line};

const FILTER: &str = "thousands_of_faults";

const FAULTS: u32 = 10_000;
const FAULTS_LONG: u32 = 100_000;

const TRANSPORT_FILTER: &str = "faults_lose_nothing";
const ON_RABBITMQ_FILTER: &str = "faults_lose_nothing_on_rabbitmq";
const TRANSPORT_FAULTS: u32 = 1_000;
const TRANSPORT_FAULTS_LONG: u32 = 10_000;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Inject 100,000 faults around the handler instead of 10,000, or 10,000 on the transport instead of 1,000
    #[arg(long)]
    long: bool,
    /// Inject faults between this transport and its server, instead of around a handler with PostgreSQL
    #[arg(long, value_name = "NAME")]
    transport: Option<String>,
    /// Choose the faults by this seed [default: a random one]
    #[arg(long, value_name = "N", value_parser = positive)]
    seed: Option<u64>,
    #[command(flatten)]
    pub(crate) output: Output,
}

pub(crate) fn run(options: &Options) -> Result<(), Error> {
    match &options.transport {
        Some(transport) => of_transport(transport, options),
        None => of_a_handler(options),
    }
}

/// Runs the harness of `consign_conformance::faults` on one transport.
fn of_transport(transport: &str, options: &Options) -> Result<(), Error> {
    let faults = if options.long { TRANSPORT_FAULTS_LONG } else { TRANSPORT_FAULTS };
    let package = package(transport)?;
    let test = if transport == AMQP10_ON_RABBITMQ { ON_RABBITMQ_FILTER } else { TRANSPORT_FILTER };
    let mut command = cargo(["test", "--package", &package, "--test", "faults", test]);
    command.args(["--", "--exact", "--nocapture"]).env("CONSIGN_FAULTS", faults.to_string());
    if let Some(seed) = options.seed {
        command.env("SEED", seed.to_string());
    }
    let mut said = None;
    let ran = for_each_line(&mut command, |line| match line.strip_prefix("faults: ") {
        Some(figures) => said = Some(figures.to_owned()),
        None => eprintln!("{line}"),
    });
    if let Some(figures) = &said {
        println!("{}", if options.output.json { figures.clone() } else { sentence(figures) });
    }
    ran?;
    said.map(drop).ok_or(Error::NoTest { filter: test })
}

/// The figures without the signs of JSON.
fn sentence(figures: &str) -> String {
    let figures: Value = serde_json::from_str(figures).unwrap_or_default();
    let figures = figures.as_object().into_iter().flatten();
    figures.map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", ")
}

fn of_a_handler(options: &Options) -> Result<(), Error> {
    let faults = if options.long { FAULTS_LONG } else { FAULTS };
    let mut command = cargo(["test", "--package", "consign-store-postgres", "--test", "postgres", FILTER]);
    command.args(["--", "--nocapture"]).env("CONSIGN_FAULTS", faults.to_string());
    if let Some(seed) = options.seed {
        command.env("SEED", seed.to_string());
    }
    let mut said = Vec::new();
    for_each_line(&mut command, |line| match line.strip_prefix("faults: ") {
        Some(figures) => said.push(figures.to_owned()),
        None => eprintln!("{line}"),
    })?;
    let Some(figures) = said.first() else { return Err(Error::NoTest { filter: FILTER }) };
    if options.output.json {
        let [faults, messages, deliveries, _, _, doubled, lost] = numbers(figures);
        println!(
            "{}",
            json!({
                "faults": faults, "messages": messages, "deliveries": deliveries,
                "effects_doubled": doubled, "effects_lost": lost,
            })
        );
    } else {
        println!("{}", said.join("\n"));
    }
    Ok(())
}
