//! `cargo xtask space`: how much of the disk a broker takes beside what it holds, while a queue is filled and
//! completed in random order again and again.

use clap::Args;
use serde_json::{Map, Value, json};

use crate::bench::callgrind::{expected, figures};
use crate::bench::programs::STORE;
use crate::error::Error;
use crate::folder::Scratch;
use crate::options::{Output, positive};

const MESSAGES: u64 = 100_000;
const CYCLES: u64 = 24;
/// What a store may have beside twice what it holds: two of its largest segments.
const SPARE: u64 = 2 * (16 << 20);

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Fill the queue with this many messages of 1 KiB
    #[arg(long, value_name = "N", default_value_t = MESSAGES, value_parser = positive)]
    messages: u64,
    /// Fill and complete it this many times
    #[arg(long, value_name = "N", default_value_t = CYCLES, value_parser = positive)]
    cycles: u64,
    #[command(flatten)]
    pub(crate) output: Output,
}

pub(crate) fn run(options: &Options) -> Result<(), Error> {
    let Options { messages, cycles, .. } = options;
    let built = STORE.build_with("release", None)?;
    let folder = Scratch::new("space")?;
    let printed = folder.printed(&built, "space", &[messages.to_string(), cycles.to_string()])?;
    let [full, most, empty, over] = ["full", "most", "empty", "over"].map(|what| of_cycles(&printed, what, *cycles));
    let (full, most, empty, over) = (full?, most?, empty?, over?);
    if options.output.json {
        let figures: Map<String, Value> = figures(&printed).map(|(name, value)| (name.into(), json!(value))).collect();
        println!("{}", Value::Object(figures));
    } else {
        println!(
            "{messages} messages of 1 KiB, MiB of the store\n\n cycle   full   most  empty  over twice what it holds"
        );
        let cycles = full.iter().zip(&most).zip(&empty).zip(&over).zip(1_u64..);
        for ((((full, most), empty), over), cycle) in cycles {
            let [full, most, empty, over] = [full, most, empty, over].map(|bytes| bytes >> 20);
            println!("{cycle:>6} {full:>6} {most:>6} {empty:>6} {over:>6}");
        }
    }
    let too_much = over.into_iter().filter(|&over| over > SPARE).max();
    too_much.map_or(Ok(()), |over| Err(Error::Space { over, goal: SPARE }))
}

/// A figure of each cycle.
fn of_cycles(printed: &str, what: &str, cycles: u64) -> Result<Vec<u64>, Error> {
    (1..=cycles).map(|cycle| expected(printed, &format!("cycle_{cycle}_{what}_bytes"), "store space")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cycle_has_a_figure() {
        let printed = "cycle_1_over_bytes 7\ncycle_2_over_bytes 9\n";
        assert_eq!(of_cycles(printed, "over", 2).unwrap(), [7, 9]);
        for (what, cycles) in [("over", 3), ("full", 1)] {
            let error = of_cycles(printed, what, cycles).unwrap_err();
            assert!(error.to_string().contains("cycle_"), "{error}");
        }
    }
}
