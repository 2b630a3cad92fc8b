//! `cargo xtask clusters`: faults of clusters of NATS, RabbitMQ and PostgreSQL under a workload, and a check of its history.
//!
//! The program is `tests/clusters`. A seed fixes the faults and the pauses between them, but not how far the work has come.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Map, Value};

use crate::error::Error;
use crate::folder::remove;
use crate::options::{Output, positive, random_seed};
use crate::workspace::{cargo, code, for_each_line, root};

const TRANSPORTS: [&str; 3] = ["nats", "rabbitmq", "postgres"];
const FAULTS: u64 = 40;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Use a cluster of these servers only: nats, rabbitmq or postgres
    #[arg(long, value_name = "NAME", value_parser = TRANSPORTS)]
    transport: Option<String>,
    /// Inject this many faults on each transport
    #[arg(long, value_name = "N", default_value_t = FAULTS, value_parser = positive)]
    faults: u64,
    /// Choose the faults by this seed [default: a random one]
    #[arg(long, value_name = "N", value_parser = positive)]
    seed: Option<u64>,
    /// Keep results and histories in this folder, and count the faults that it has too: a run that was interrupted continues
    /// with the same code and --seed
    #[arg(long, value_name = "DIR")]
    history: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) output: Output,
}

pub(crate) fn run(options: &Options) -> Result<(), Error> {
    let seed = options.seed.unwrap_or_else(random_seed);
    let (faults, code) = (options.faults, code()?);
    let mut object = Map::new();
    let mut failed = None;
    for transport in TRANSPORTS.iter().filter(|name| options.transport.as_ref().is_none_or(|only| only == *name)) {
        eprintln!("replay: cargo xtask clusters --transport {transport} --faults {faults} --seed {seed}");
        let folder = if let Some(folder) = &options.history {
            folder.join(transport)
        } else {
            let folder = root().join("target/clusters").join(transport);
            remove(&folder)?;
            folder
        };
        // cargo runs the program in the root of the workspace.
        let folder = std::path::absolute(&folder).map_err(|source| Error::Read { path: folder.clone(), source })?;
        let mut command = cargo(["run", "--package", "cluster-tests", "--example", "clusters", "--", "run"]);
        command.args(["--transport", transport, "--faults", &faults.to_string(), "--seed", &seed.to_string()]);
        command.arg("--history").arg(folder).args(["--code", &code]);
        if options.output.json {
            command.arg("--json");
        }
        let mut text = String::new();
        let mut ended = for_each_line(&mut command, |line| {
            text.push_str(line);
            text.push('\n');
        });
        if options.output.json {
            match serde_json::from_str(&text) {
                Ok(report) => drop(object.insert((*transport).into(), report)),
                Err(error) => ended = ended.and(Err(Error::Report(error))),
            }
        } else {
            print!("{text}");
        }
        // The others run too.
        failed = failed.or(ended.err());
    }
    if options.output.json {
        println!("{}", Value::Object(object));
    }
    failed.map_or(Ok(()), Err)
}
