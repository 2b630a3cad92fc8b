//! What a message costs in a broker on a disk, on all threads of the process.

use super::callgrind::{self, Cost};
use super::figure::{Figure, Part};
use super::programs::DURABLE;
use crate::error::Error;

/// Messages of the first run, a multiple of each window.
const MESSAGES: u64 = 2_048;

const SCENARIOS: [(&str, &str); 6] = [
    ("durable_send_1", "a durable send of 1 KiB, on all threads"),
    ("durable_send_64", "the same, 64 at once"),
    ("durable_send_512", "the same, 512 at once"),
    ("durable_cycle_1", "a durable send, its delivery and its completion"),
    ("durable_cycle_64", "the same, 64 at once"),
    ("durable_cycle_512", "the same, 512 at once"),
];

/// The instructions of each scenario, then its allocations. How many messages are in a commit depends on how the threads
/// run, so the figures of two runs differ by a few percent.
pub(crate) fn figures() -> Result<Vec<Figure>, Error> {
    let built = DURABLE.build()?;
    let (mut instructions, mut allocations) = (Vec::new(), Vec::new());
    for (name, about) in SCENARIOS {
        eprintln!("counting {name}");
        let cost: Cost = callgrind::cost(&DURABLE, &built, name, MESSAGES)?;
        let figure =
            |part, name: &str, unit, ours| Figure { about: about.into(), ..Figure::new(part, name, unit, ours) };
        instructions.push(figure(Part::Counted, name, "instructions per message", cost.instructions));
        let name = format!("{name}/allocations");
        allocations.push(figure(Part::Allocations, &name, "allocations per message", cost.allocations));
    }
    Ok([instructions, allocations].concat())
}
