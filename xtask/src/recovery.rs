//! `cargo xtask recovery`: how long a broker on a disk takes to open with many messages of 1 KiB in it, and how much memory
//! it takes while it is filled, opened and drained. Each of these is a process of its own.

use std::path::Path;
use std::process::Command;

use clap::Args;
use clap::builder::PossibleValuesParser;
use serde_json::{Map, Value, json};

use crate::bench::callgrind::figures;
use crate::bench::programs::RECOVERY;
use crate::error::Error;
use crate::folder::remove;
use crate::options::{Output, positive};
use crate::workspace::{output, root};

const MESSAGES: u64 = 100_000;
const LONG: u64 = 10_000_000;
/// The most memory that a process may have had.
const GOAL: u64 = 3 << 29;
/// Where the store is. With `--long` it takes about 15 GB.
const FOLDER: &str = "target/recovery";

/// The step that makes the store.
const FIRST: &str = "fill";

/// What is done, in this order, and the figures of it.
const STEPS: [(&str, &str); 5] = [
    ("fill", "made, filled and closed"),
    ("open", "opened and closed"),
    ("crash", "opened, ended without a close"),
    ("reopen", "opened after that"),
    ("drain", "opened, emptied and closed"),
];

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Measure 10,000,000 messages instead of 100,000 (takes 15 GB of disk)
    #[arg(long)]
    long: bool,
    /// Measure this many messages
    #[arg(long, value_name = "N", conflicts_with = "long", value_parser = positive)]
    messages: Option<u64>,
    /// Do only these steps, separated by commas, and keep the store in target/recovery for the next ones
    #[arg(long, value_name = "STEPS", value_delimiter = ',')]
    #[arg(value_parser = PossibleValuesParser::new(STEPS.map(|(step, _)| step)))]
    only: Vec<String>,
    #[command(flatten)]
    pub(crate) output: Output,
}

pub(crate) fn run(options: &Options) -> Result<(), Error> {
    let messages = options.messages.unwrap_or(if options.long { LONG } else { MESSAGES });
    let program = RECOVERY.build_with("release", None)?;
    let folder = root().join(FOLDER);
    let is_asked = |step: &str| options.only.is_empty() || options.only.iter().any(|only| only == step);
    let steps: Vec<_> = STEPS.into_iter().filter(|(step, _)| is_asked(step)).collect();
    if is_asked(FIRST) {
        remove(&folder)?;
    }
    let measured = measure(&program, &folder, messages, &steps, options.output.json);
    if options.only.is_empty() {
        remove(&folder)?;
    }
    let peak = measured?;
    if peak > GOAL { Err(Error::Memory { peak, goal: GOAL }) } else { Ok(()) }
}

/// The most memory of all steps.
fn measure(program: &Path, folder: &Path, messages: u64, steps: &[(&str, &str)], as_json: bool) -> Result<u64, Error> {
    let (mut peak, mut object) = (0, Map::from_iter([("messages".to_owned(), json!(messages))]));
    if !as_json {
        println!(
            "{messages} messages of 1 KiB\n\n{:<36} {:>10} {:>10} {:>12} {:>12}",
            "", "open", "work", "memory", "file"
        );
    }
    for &(step, about) in steps {
        let argument = if step == "reopen" { "open" } else { step };
        let printed = output(Command::new(program).arg(argument).arg(folder).arg(messages.to_string()))?;
        let value = |wanted: &str| figures(&printed).find(|(name, _)| *name == wanted).map(|(_, value)| value);
        let memory = value("peak_bytes").ok_or_else(|| Error::NoCount { command: format!("recovery {argument}") })?;
        peak = peak.max(memory);
        if as_json {
            let figures: Map<String, Value> =
                figures(&printed).map(|(name, value)| (name.into(), json!(value))).collect();
            object.insert(step.into(), figures.into());
        } else {
            let time = |name| value(name).map(|time| format!("{time} ms")).unwrap_or_default();
            let size = |bytes: Option<u64>| bytes.map(|bytes| format!("{} MiB", bytes >> 20)).unwrap_or_default();
            let (open, work) = (time("open_ms"), time(&format!("{step}_ms")));
            println!("{about:<36} {open:>10} {work:>10} {:>12} {:>12}", size(Some(memory)), size(value("file_bytes")));
        }
    }
    if as_json {
        println!("{}", Value::Object(object));
    }
    Ok(peak)
}
