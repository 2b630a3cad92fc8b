//! `cargo xtask model`: random operations on the broker, compared with the model of it, over fresh seeds: in memory, and on
//! a disk, where it is closed and opened again in between. With `--transport postgres` the operations are those of the
//! transport on a server.
//!
//! Built in the profile `checked`, so that the code is optimised and an overflow still panics. `SEED` sets the base that
//! the seeds follow from.

use clap::Args;
use serde_json::{Value, json};

use crate::error::Error;
use crate::options::{Output, positive, random_seed};
use crate::workspace::{cargo, for_each_line};

const IN_MEMORY: &str = "random_operations_agree_with_the_model";
const ON_A_DISK: &str = "random_operations_on_a_disk_agree_with_the_model";

/// Operations in all, and seeds they are spread over.
const OPS: u64 = 1_000_000;
const OPS_LONG: u64 = 100_000_000;
const SEEDS: u64 = 20;
/// Through a transport an operation takes milliseconds.
const TRANSPORT_OPS: u64 = 100_000;
const ON_A_SERVER: &str = "random_operations_on_postgresql_agree_with_the_model";

/// On a disk an operation takes so many times as long, so it gets as many fewer.
const DISK: u64 = 5;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Run 100,000,000 operations instead of 1,000,000
    #[arg(long)]
    long: bool,
    /// Run 100,000 operations through this transport, on its server
    #[arg(long, value_name = "NAME", value_parser = ["postgres"])]
    transport: Option<String>,
    /// Run this many operations in memory, and a fifth as many on a disk
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) ops: Option<u64>,
    /// Spread the operations over this many seeds
    #[arg(long, value_name = "N", default_value_t = SEEDS, value_parser = positive)]
    pub(crate) seeds: u64,
    #[command(flatten)]
    pub(crate) output: Output,
}

pub(crate) fn run(options: &Options) -> Result<(), Error> {
    if let Some(transport) = &options.transport {
        return of_transport(transport, options);
    }
    let ops = options.ops.unwrap_or(if options.long { OPS_LONG } else { OPS });
    let seeds = options.seeds;
    let base = std::env::var("SEED").unwrap_or_else(|_| random_seed().to_string());
    eprintln!("base seed {base}");
    let in_memory = run_test(IN_MEMORY, &base, ops, seeds)?;
    let on_a_disk = run_test(ON_A_DISK, &base, (ops / DISK).max(1), seeds)?;
    if options.output.json {
        let (memory, disk) = (figures(&in_memory), figures(&on_a_disk));
        println!("{}", json!({ "base_seed": base, "in_memory": memory, "on_a_disk": disk }));
    } else {
        println!("base seed {base}\nin memory\n{}\non a disk\n{}", in_memory.join("\n"), on_a_disk.join("\n"));
    }
    Ok(())
}

fn of_transport(transport: &str, options: &Options) -> Result<(), Error> {
    let ops = options.ops.unwrap_or(TRANSPORT_OPS);
    let package = crate::conformance::package(transport)?;
    let mut command = cargo(["test", "--package", &package, "--test", "against_model", ON_A_SERVER]);
    command.args(["--", "--exact", "--nocapture"]).env("CONSIGN_OPS", ops.to_string());
    let mut said = Vec::new();
    for_each_line(&mut command, |line| match line.strip_prefix("model: ") {
        Some(figures) => said.push(figures.to_owned()),
        None => eprintln!("{line}"),
    })?;
    let [seed, figures, ..] = &*said else { return Err(Error::NoTest { filter: ON_A_SERVER }) };
    if options.output.json {
        let ([seed], [ops, kinds, divergences]) = (numbers(seed), numbers(figures));
        println!("{}", json!({ "seed": seed, "operations": ops, "kinds": kinds, "divergences": divergences }));
    } else {
        println!("{}", said.join("\n"));
    }
    Ok(())
}

/// What a test says of its run: a line for the operations, one for sessions, one for how often it was opened again, and one
/// for each kind.
fn run_test(test: &'static str, base: &str, ops: u64, seeds: u64) -> Result<Vec<String>, Error> {
    let mut command = cargo(["test", "--profile", "checked", "--features", "full", "--test", "model", test]);
    command.args(["--", "--exact", "--nocapture"]).env("SEED", base);
    command.env("CONSIGN_OPS", ops.to_string()).env("CONSIGN_SEEDS", seeds.to_string());
    let mut said = Vec::new();
    for_each_line(&mut command, |line| match line.strip_prefix("model: ") {
        Some(figures) => said.push(figures.to_owned()),
        None => eprintln!("{line}"),
    })?;
    if said.len() < 3 { Err(Error::NoTest { filter: test }) } else { Ok(said) }
}

fn figures(said: &[String]) -> Value {
    let [runs, sessions, reopens, ..] = said else { return Value::Null };
    let ([ops, seeds, kinds, _, divergences], [session_ops, inversions]) = (numbers(runs), numbers(sessions));
    let [reopens] = numbers(reopens);
    json!({
        "operations": ops, "seeds": seeds, "kinds": kinds, "divergences": divergences,
        "session_operations": session_ops, "inversions": inversions, "reopens": reopens,
    })
}

/// The first numbers of a line; 0 for those that it lacks.
pub(crate) fn numbers<const N: usize>(line: &str) -> [u64; N] {
    let mut found = line.split_whitespace().filter_map(|word| word.parse().ok());
    std::array::from_fn(|_| found.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_are_read_from_what_the_test_says() {
        assert_eq!(numbers("1000 operations, 20 seeds, 67 of 68 kinds, 0 divergences"), [1_000, 20, 67, 68, 0]);
        assert_eq!(numbers("7 session operations"), [7, 0]);
    }
}
