//! `cargo xtask memory`: bytes that each thing in the embedded broker takes, by an allocator that counts.

use serde_json::{Value, json};

use crate::Options;
use crate::bench;
use crate::error::Error;
use crate::workspace::output;

pub(crate) fn run(options: Options) -> Result<(), Error> {
    let program = bench::build("memory")?;
    let printed = output(&mut std::process::Command::new(program))?;
    let figures = figures(&printed);
    if options.json {
        let things: Vec<Value> = figures.iter().map(|(name, bytes)| json!({ "name": name, "bytes": bytes })).collect();
        println!("{}", json!({ "unit": "bytes each", "things": things }));
    } else {
        println!("{:<20} bytes each", "thing");
        for (name, bytes) in figures {
            println!("{name:<20} {bytes}");
        }
    }
    Ok(())
}

/// The lines of a name and a number.
fn figures(printed: &str) -> Vec<(&str, u64)> {
    let pairs = printed.lines().filter_map(|line| line.split_once(' '));
    pairs.filter_map(|(name, bytes)| Some((name, bytes.parse().ok()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_figure_is_passed_over() {
        assert_eq!(figures("lock 3\nready\nidle_queue 1000\nlock many"), [("lock", 3), ("idle_queue", 1_000)]);
    }
}
