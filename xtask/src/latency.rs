//! `cargo xtask latency`: how long one durable send takes at shares of the maximum rate, while the store is compacted.

use std::fmt::Write as _;

use clap::Args;
use serde_json::{Map, Value, json};

use crate::bench::callgrind::{expected, figures};
use crate::bench::figure::number;
use crate::bench::programs::STORE;
use crate::error::Error;
use crate::folder::Scratch;
use crate::options::{Output, positive};

const SECONDS: u64 = 10;
const SHARES: [u64; 3] = [10, 50, 90];
const COLUMNS: [&str; 4] = ["p50", "p99", "p99.9", "most"];

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Measure the maximum rate and each share of it for this many seconds
    #[arg(long, value_name = "N", default_value_t = SECONDS, value_parser = positive)]
    seconds: u64,
    #[command(flatten)]
    pub(crate) output: Output,
}

pub(crate) fn run(options: &Options) -> Result<(), Error> {
    let built = STORE.build_with("release", None)?;
    let printed = Scratch::new("latency")?.printed(&built, "latency", &[options.seconds.to_string()])?;
    let table = table(&printed)?;
    if options.output.json {
        let figures: Map<String, Value> = figures(&printed).map(|(name, value)| (name.into(), json!(value))).collect();
        println!("{}", Value::Object(figures));
    } else {
        print!("{table}");
    }
    Ok(())
}

fn table(printed: &str) -> Result<String, Error> {
    let of = |name: &str| expected(printed, name, "store latency");
    let most = of("most_per_second")?;
    let mut table = format!("at most {most} messages a second; microseconds from when a message was due\n\n");
    let columns = COLUMNS.map(|column| format!("{column:>10}")).join(" ");
    let _ = writeln!(table, "{:>6} {:>10} {columns}", "share", "messages");
    for share in SHARES {
        let _ = write!(table, "{share:>5}% {:>10}", of(&format!("at_{share}_messages"))?);
        for column in COLUMNS {
            #[expect(clippy::cast_precision_loss, reason = "microseconds of a few seconds")]
            let took = of(&format!("at_{share}_{column}_us"))? as f64;
            let _ = write!(table, " {:>10}", number(took));
        }
        table.push('\n');
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_figure_of_the_table_is_measured() {
        let mut lines = vec!["most_per_second 100".to_owned()];
        for share in SHARES {
            lines.push(format!("at_{share}_messages 7"));
            lines.extend(COLUMNS.map(|column| format!("at_{share}_{column}_us 12")));
        }
        let table_of = |lines: &[String]| table(&lines.join("\n"));
        assert!(table_of(&lines).unwrap().contains("   50%          7         12"));
        for missing in 0..lines.len() {
            let mut some = lines.clone();
            some.remove(missing);
            assert!(matches!(table_of(&some), Err(Error::NoCount { .. })), "{}", lines[missing]);
        }
    }
}
