//! `cargo xtask memory`: bytes that each thing in the embedded broker takes, by an allocator that counts.

use serde_json::{Value, json};

use super::callgrind;
use super::programs::MEMORY;
use crate::error::Error;
use crate::options::Output;

pub(crate) fn run(output: &Output) -> Result<(), Error> {
    let printed = callgrind::printed(&MEMORY.build()?, &[])?;
    let figures = callgrind::figures(&printed);
    if output.json {
        let things: Vec<Value> = figures.map(|(name, bytes)| json!({ "name": name, "bytes": bytes })).collect();
        println!("{}", json!({ "unit": "bytes each", "things": things }));
    } else {
        println!("{:<20} bytes each", "thing");
        for (name, bytes) in figures {
            println!("{name:<20} {bytes}");
        }
    }
    Ok(())
}
