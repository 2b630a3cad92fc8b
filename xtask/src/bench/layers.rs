//! What each layer costs a message that passes through it untouched: the cost of a stack with it, less that of the same
//! stack without it.

use std::path::Path;

use super::callgrind::{self, Cost};
use super::figure::{Figure, Part, number};
use super::programs::{LAYERS, OBSERVED, Program};
use super::table::{self, Rows};
use crate::error::Error;

const MESSAGES: u64 = 1_000;
/// What a layer may cost that has nothing to do.
const GOAL: f64 = 25.0;
const INSTRUCTIONS: &str = "instructions per message";
const ALLOCATIONS: &str = "allocations per message";

/// A scenario of `benches/layers.rs`.
struct Layer {
    name: &'static str,
    about: &'static str,
    /// Whether it does something for each message, and so is held to no goal.
    works: bool,
}

/// A stack without a layer, and the layers over it.
struct Stack {
    program: Program,
    name: &'static str,
    about: &'static str,
    layers: &'static [Layer],
}

const fn passes(name: &'static str, about: &'static str) -> Layer {
    Layer { name, about, works: false }
}

const fn works(name: &'static str, about: &'static str) -> Layer {
    Layer { name, about, works: true }
}

const STACKS: &[Stack] = &[
    Stack {
        program: LAYERS,
        name: "receiving",
        about: "no layer: a full queue, the consumer, a handler that returns at once",
        layers: &[
            passes("dead_letter", "keeps the properties, to cut a dead letter"),
            passes("catch_panic", "catches panics of the call and of each poll"),
            passes("lock_renewal", "keeps the message; no timer for a handler that returns at once"),
            passes("expiry", "reads the clock, and compares two instants"),
            passes("retry", "keeps the message and a clone of the inner stack"),
            passes("retry_later", "the same, with delayed retries"),
            passes("circuit_breaker", "checks whether it is closed, and the result"),
            works("dedup", "reserves an id in memory and commits it"),
            passes("decompress", "a message without an encoding"),
            works("decompress_1k", "an order of 1,024 bytes, by gzip"),
            works("decompress_1k_zstd", "the same by zstd"),
            passes("check_out", "a message without a claim"),
            works("check_out_1k", "an order of 1,024 bytes, out of memory"),
            works("decrypt_1k", "an order of 1,024 bytes"),
            works("verify_1k", "an order of 1,024 bytes"),
            passes("from_fn", "an `async fn` that passes the message on"),
            works("partition", "a message without a key"),
            works("partition_key", "hashes a key that all messages have, and waits for its turn"),
            works("spawn", "runs the handler in a task of its own"),
            passes("trace", "checks whether the span is enabled, without a subscriber"),
        ],
    },
    Stack {
        program: LAYERS,
        name: "sending",
        about: "no layer: a transport that accepts at once",
        layers: &[
            passes("message_id", "of a message that has an id"),
            passes("busy_pause", "checks whether there is a pause"),
            passes("compress", "a body below the threshold"),
            works("compress_1k", "an order of 1,024 bytes, by gzip"),
            works("compress_1k_zstd", "the same by zstd"),
            passes("check_in", "a body below the threshold"),
            works("check_in_1k", "an order of 1,024 bytes, into memory"),
            works("encrypt_1k", "an order of 1,024 bytes"),
            works("sign_1k", "an order of 1,024 bytes"),
            works("size_limit", "adds up the sizes of the body and of each property"),
            works("in_flight", "acquires and releases a permit of a semaphore"),
            passes("from_send_fn", "an `async fn` that passes the message on"),
            passes("trace_sending", "checks whether the span is enabled, without a subscriber"),
        ],
    },
    Stack {
        program: OBSERVED,
        name: "observed_receiving",
        about: "no layer: a message with a trace context, and a handler that returns at once",
        layers: &[
            works("process", "a span, a duration and a count, by OpenTelemetry's SDK, and an exporter that drops them"),
            works("process_unsampled", "the same of a trace that is not recorded"),
            works("process_always_off", "spans by the SDK with a sampler that takes none, and no metrics"),
            works("process_without_provider", "no provider"),
        ],
    },
    Stack {
        program: OBSERVED,
        name: "observed_sending",
        about: "no layer: a transport that accepts at once",
        layers: &[
            works(
                "send",
                "a span, a duration, a count and two properties, by the SDK, and an exporter that drops them",
            ),
            works("send_always_off", "spans by the SDK with a sampler that takes none, and no metrics"),
            works("send_without_provider", "no provider"),
        ],
    },
];

pub(crate) fn figures() -> Result<Vec<Figure>, Error> {
    let mut figures = Vec::new();
    for stack in STACKS {
        let (program, built) = (&stack.program, stack.program.build()?);
        let without = count(program, &built, stack.name)?;
        figures.extend(pair(stack.name, stack.about, without, None));
        for layer in stack.layers {
            let with = count(program, &built, layer.name)?;
            figures.extend(pair(layer.name, layer.about, over(with, without), (!layer.works).then_some(GOAL)));
        }
    }
    Ok(figures)
}

fn count(program: &Program, built: &Path, scenario: &str) -> Result<Cost, Error> {
    eprintln!("counting {scenario} of {}", program.name);
    callgrind::cost(program, built, scenario, MESSAGES)
}

/// The compiler may make a stack with a layer cheaper than one without.
fn over(with: Cost, without: Cost) -> Cost {
    let thousandths = |allocations: f64| (allocations * 1_000.0).round() / 1_000.0;
    Cost {
        instructions: with.instructions - without.instructions,
        allocations: thousandths(with.allocations - without.allocations),
    }
}

fn pair(name: &str, about: &str, cost: Cost, goal: Option<f64>) -> [Figure; 2] {
    let figure = |name, unit, ours| Figure { about: about.into(), ..Figure::new(Part::Layers, name, unit, ours) };
    let instructions = figure(format!("layers/{name}"), INSTRUCTIONS, cost.instructions);
    let allocations = figure(format!("layers/{name}/allocations"), ALLOCATIONS, cost.allocations);
    [Figure { goal, ..instructions }, Figure { goal: goal.map(|_| 0.0), ..allocations }]
}

/// A row for each layer, with both of its figures.
pub(crate) fn rows(figures: &[Figure]) -> Rows {
    let head = ["layer", "ours / goal", "instructions", "goal", "allocations", "what"];
    let instructions = figures.iter().filter(|figure| figure.unit == INSTRUCTIONS);
    let rows = instructions.map(|figure| {
        let name = format!("{}/allocations", figure.name);
        let allocations = figures.iter().find(|other| other.name == name).map(|other| number(other.ours));
        let ratio = figure.to_goal().map(|ratio| format!("{ratio:.2}{}", table::mark(figure)));
        vec![
            table::short(&figure.name),
            ratio.unwrap_or_default(),
            number(figure.ours),
            figure.goal.map(number).unwrap_or_default(),
            allocations.unwrap_or_default(),
            figure.about.clone(),
        ]
    });
    std::iter::once(head.map(String::from).to_vec()).chain(rows).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layer_costs_what_the_stack_without_it_does_not() {
        let cost = |instructions, allocations| Cost { instructions, allocations };
        assert_eq!(over(cost(130.0, 1.002), cost(100.0, 0.001)), cost(30.0, 1.001));
        assert_eq!(over(cost(99.0, 0.0), cost(100.0, 0.0)), cost(-1.0, 0.0));
    }

    #[test]
    fn both_figures_of_a_layer_stand_in_one_row() {
        let cost = Cost { instructions: 30.0, allocations: 1.0 };
        let figures: Vec<_> = [pair("retry", "again", cost, Some(GOAL)), pair("dedup", "once", cost, None)].concat();
        assert_eq!(figures.iter().map(Figure::is_met).collect::<Vec<_>>(), [Some(false), Some(false), None, None]);
        let rows = rows(&figures);
        assert_eq!(rows[1], ["retry", "1.20 missed", "30", "25", "1", "again"]);
        assert_eq!(rows[2], ["dedup", "", "30", "", "1", "once"]);
    }
}
