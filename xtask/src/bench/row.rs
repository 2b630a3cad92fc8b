//! What the whole row of receiving layers costs, beside the same message decoded without a layer.

use super::callgrind::{self, Cost};
use super::figure::{Figure, Part, number};
use super::programs::ROW;
use crate::error::Error;

const MESSAGES: u64 = 1_000;
/// How many times what decoding alone takes.
const TIMES: f64 = 2.0;

/// A scenario of `benches/row.rs`, and what a message is in it.
const ROWS: &[(&str, &str)] = &[
    ("untouched", "as it is"),
    ("compressed_gzip", "compressed by gzip"),
    ("compressed_zstd", "compressed by zstd"),
    ("encrypted", "encrypted"),
    ("encrypted_gzip", "compressed by gzip, and encrypted"),
    ("encrypted_zstd", "compressed by zstd, and encrypted"),
    ("claimed_encrypted_gzip", "compressed by gzip, encrypted, and stored in memory with a claim"),
];

/// What is no layer, and does as much.
const BODIES: &[(&str, &str)] = &[
    ("cloud_event", "decoding an event in structured mode with the order as data"),
    ("transcode", "from JSON to MessagePack, decoded again and compared"),
];

pub(crate) fn figures() -> Result<Vec<Figure>, Error> {
    let built = ROW.build()?;
    let count = |scenario: &str| {
        eprintln!("counting {scenario} of {}", ROW.name);
        callgrind::cost(&ROW, &built, scenario, MESSAGES)
    };
    let decode = count("decode")?;
    let mut figures = vec![figure("decode", "no layer: the consumer, a router, JSON", decode)];
    for (name, about) in ROWS {
        figures.push(beside(figure(name, about, count(name)?), decode));
    }
    for (name, about) in BODIES {
        figures.push(figure(name, about, count(name)?));
    }
    Ok(figures)
}

fn figure(name: &str, about: &str, cost: Cost) -> Figure {
    let about = format!("{about}; {} allocations", number(cost.allocations));
    Figure { about, ..Figure::new(Part::Row, format!("row/{name}"), "instructions per message", cost.instructions) }
}

/// The floor is decoding alone.
fn beside(figure: Figure, decode: Cost) -> Figure {
    let floor = decode.instructions;
    Figure { floor: Some(floor), goal: Some(TIMES * floor), ..figure }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_held_to_twice_the_decoding() {
        let cost = |instructions| Cost { instructions, allocations: 1.5 };
        let of = |instructions| beside(figure("untouched", "as it is", cost(instructions)), cost(100.0));
        assert_eq!((of(200.0).is_met(), of(201.0).is_met()), (Some(true), Some(false)));
        assert_eq!((of(150.0).to_floor(), &*of(150.0).about), (Some(1.5), "as it is; 1.5 allocations"));
    }
}
