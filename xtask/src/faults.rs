//! `cargo xtask faults`: faults at every point of a pipeline whose handled ids and effects are in a real PostgreSQL.

use serde_json::json;

use crate::Options;
use crate::error::Error;
use crate::model::numbers;
use crate::workspace::{cargo, for_each_line};

const FILTER: &str = "thousands_of_faults";

const FAULTS: u32 = 10_000;
const FAULTS_LONG: u32 = 100_000;

pub(crate) fn run(options: Options) -> Result<(), Error> {
    let faults = if options.long { FAULTS_LONG } else { FAULTS };
    let mut command = cargo(["test", "--package", "consign-dedup-postgres", "--test", "postgres", FILTER]);
    command.args(["--", "--nocapture"]).env("CONSIGN_FAULTS", faults.to_string());
    let mut said = Vec::new();
    for_each_line(&mut command, |line| match line.strip_prefix("faults: ") {
        Some(figures) => said.push(figures.to_owned()),
        None => eprintln!("{line}"),
    })?;
    let Some(figures) = said.first() else { return Err(Error::NoTest { filter: FILTER }) };
    if options.json {
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
