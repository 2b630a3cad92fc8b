//! `cargo xtask instructions`: what one consumed message costs, counted by callgrind.
//!
//! The slope between two numbers of messages, so that start-up cancels. It wants valgrind.

use serde_json::json;

use crate::Options;
use crate::bench;
use crate::error::Error;

const SCENARIOS: [&str; 6] = ["bytes", "json", "batch_64", "json_real_clock", "four_layers", "serde_json"];
const MESSAGES: u64 = 1_000;

pub(crate) fn run(options: Options) -> Result<(), Error> {
    let program = bench::build("consume")?;
    let mut counted = Vec::new();
    for scenario in SCENARIOS {
        let once = bench::instructions(&program, &[scenario, &MESSAGES.to_string()])?;
        let twice = bench::instructions(&program, &[scenario, &(2 * MESSAGES).to_string()])?;
        counted.push((scenario, twice.saturating_sub(once) / MESSAGES));
    }
    if options.json {
        let scenarios: Vec<_> = counted.iter().map(|(name, ours)| json!({ "name": name, "ours": ours })).collect();
        println!("{}", json!({ "unit": "instructions per message", "scenarios": scenarios }));
    } else {
        println!("{:<20} instructions per message", "scenario");
        for (name, ours) in counted {
            println!("{name:<20} {ours}");
        }
    }
    Ok(())
}
