//! `cargo xtask latency`: how long one durable send takes at shares of the maximum rate, while the store is compacted.

use clap::Args;
use serde_json::{Map, Value, json};

use crate::bench::callgrind::{figure, figures};
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
    if options.output.json {
        let figures: Map<String, Value> = figures(&printed).map(|(name, value)| (name.into(), json!(value))).collect();
        println!("{}", Value::Object(figures));
        return Ok(());
    }
    let most = figure(&printed, "most_per_second").unwrap_or(0);
    println!("at most {most} messages a second; microseconds from when a message was due\n");
    println!("{:>6} {:>10} {}", "share", "messages", COLUMNS.map(|column| format!("{column:>10}")).join(" "));
    for share in SHARES {
        let of = |what: &str| figure(&printed, &format!("at_{share}_{what}")).unwrap_or(0);
        #[expect(clippy::cast_precision_loss, reason = "microseconds of a few seconds")]
        let columns = COLUMNS.map(|column| format!("{:>10}", number(of(&format!("{column}_us")) as f64)));
        println!("{share:>5}% {:>10} {}", of("messages"), columns.join(" "));
    }
    Ok(())
}
