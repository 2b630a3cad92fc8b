//! `cargo xtask kill`: processes that use a broker on a disk are killed, or told to end, and their stores are opened again.
//!
//! Built in the profile `checked`, so that the code is optimised and an overflow still panics. A seed fixes what each
//! process does and when it is killed, but not how far it has come by then. With `--outbox` the processes are relays of
//! `consign-outbox-postgres` to real brokers, with `--servers` they are servers of which a command resubmits dead letters.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Map, Value, json};

use crate::error::Error;
use crate::options::{Output, positive, random_seed};
use crate::workspace::{cargo, code, for_each_line};

/// What kills, and what tells to end, with one run of the latter for so many of the former.
const FILTERS: [(&str, u64); 2] = [
    ("kill::a_killed_process_loses_nothing_that_it_acknowledged", 1),
    ("kill::a_terminated_process_leaves_no_lock", 10),
];
/// A server of each transport is needed: `scripts/brokers`.
const OUTBOX: [(&str, u64); 1] = [("kills::a_killed_relay_loses_nothing", 1)];
/// The servers of a command.
const SERVERS: [(&str, u64); 1] = [("killed_server::a_resubmission_survives_kills_of_its_server", 1)];
const TRANSPORTS: [&str; 3] = ["postgres", "nats", "rabbitmq"];
const CYCLES: u64 = 200;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Kill this many processes, and terminate a tenth as many
    #[arg(long, value_name = "N", default_value_t = CYCLES, value_parser = positive)]
    cycles: u64,
    /// Kill processes with a relay of an outbox instead, this many on each transport
    #[arg(long)]
    outbox: bool,
    /// Kill this many servers of `consign dead-letters resubmit` instead
    #[arg(long, conflicts_with = "outbox")]
    servers: bool,
    /// With --outbox, kill on this transport only: postgres, nats or rabbitmq
    #[arg(long, value_name = "NAME", requires = "outbox", value_parser = TRANSPORTS)]
    transport: Option<String>,
    /// With --outbox, count the kills that this file has too, and add those of this run to it: a run that was interrupted continues
    /// with the same code and --seed
    #[arg(long, value_name = "FILE", requires = "outbox")]
    resume: Option<PathBuf>,
    /// Choose what each process does by this seed [default: a random one]
    #[arg(long, value_name = "N", value_parser = positive)]
    seed: Option<u64>,
    #[command(flatten)]
    pub(crate) output: Output,
}

pub(crate) fn run(options: &Options) -> Result<(), Error> {
    let cycles = options.cycles;
    let seed = options.seed.unwrap_or_else(random_seed);
    let (filters, what): (&[_], _) = match (options.outbox, options.servers) {
        (true, _) => (&OUTBOX, " --outbox"),
        (_, true) => (&SERVERS, " --servers"),
        _ => (&FILTERS, ""),
    };
    eprintln!("replay: cargo xtask kill --cycles {cycles} --seed {seed}{what}");
    let mut object = Map::new();
    for &(filter, share) in filters {
        let mut command = cargo(["test", "--profile", "checked", "--features", "full"]);
        if options.outbox {
            command.args(["--package", "consign-outbox-postgres", "--test", "outbox", filter]);
        } else if options.servers {
            command.args(["--package", "consign-server", "--test", "command_line", filter]);
        } else {
            command.args(["--test", "durable", filter]);
        }
        command.args(["--", "--nocapture"]).env("SEED", seed.to_string());
        command.env("CONSIGN_CYCLES", cycles.div_ceil(share).to_string());
        // Without a server.
        command.env("CONSIGN_LEAVE_NOTHING_OUT", "1");
        if let Some(transport) = &options.transport {
            command.env("CONSIGN_TRANSPORT", transport);
        }
        if let Some(file) = &options.resume {
            // A test runs in the folder of its package.
            let file = std::path::absolute(file).map_err(|source| Error::Read { path: file.clone(), source })?;
            command.env("CONSIGN_RECORD", file).env("CONSIGN_CODE", code()?);
        }
        // The outbox has a line for each transport.
        let mut said = Vec::new();
        for_each_line(&mut command, |line| match line.split_once("kill: ") {
            Some((_, figures)) => said.push(figures.to_owned()),
            None => eprintln!("{line}"),
        })?;
        if said.is_empty() {
            return Err(Error::NoTest { filter });
        }
        if options.outbox {
            all_said(&said, options.transport.as_deref())?;
        }
        for said in said {
            if options.output.json {
                object.extend(figures(&said));
            } else {
                println!("{said}");
            }
        }
    }
    if options.output.json {
        object.insert("seed".into(), json!(seed));
        println!("{}", Value::Object(object));
    }
    Ok(())
}

/// Fails unless there is a line for each transport, or for the one that is named.
fn all_said(said: &[String], only: Option<&str>) -> Result<(), Error> {
    let mut expected = TRANSPORTS.iter().filter(|name| only.is_none_or(|only| only == **name));
    let missing = expected.find(|name| !said.iter().any(|said| said.contains(&format!(" on {name}: "))));
    missing.map_or(Ok(()), |name| Err(Error::NoCount { command: format!("kill --outbox --transport {name}") }))
}

/// `30 killed: 7 acknowledged, 0 lost, seed 1` as an object, under the name of what was done.
fn figures(line: &str) -> Option<(String, Value)> {
    let (head, counts) = line.split_once(": ")?;
    let (cycles, how) = head.split_once(' ')?;
    let mut object = Map::from_iter([("cycles".to_owned(), json!(cycles.parse::<u64>().ok()?))]);
    for count in counts.split(", ") {
        if let Some((number, name)) = count.split_once(' ')
            && let Ok(number) = number.parse::<u64>()
        {
            object.insert(name.replace(' ', "_"), json!(number));
        }
    }
    Some((how.into(), Value::Object(object)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_transport_says_what_was_killed() {
        let said = |names: &[&str]| names.iter().map(|name| format!("9 killed on {name}: 0 lost")).collect::<Vec<_>>();
        assert!(all_said(&said(&TRANSPORTS), None).is_ok());
        assert!(all_said(&said(&["nats"]), Some("nats")).is_ok());
        for (names, only) in [(&["postgres", "nats"][..], None), (&["nats"], Some("rabbitmq")), (&[], None)] {
            assert!(all_said(&said(names), only).is_err(), "{names:?}");
        }
    }

    #[test]
    fn the_figures_are_read_from_what_the_test_says() {
        let read = figures("30 killed: 7 acknowledged, 2 in doubt, 0 lost, seed 9");
        let expected = json!({ "cycles": 30, "acknowledged": 7, "in_doubt": 2, "lost": 0 });
        assert_eq!(read, Some(("killed".into(), expected)));
    }
}
