//! The codec and the engine of AMQP 1.0. `benches/amqp` names its scenarios `WORK/SIDE`: those that differ in the side alone do the
//! same work.

use super::callgrind::{self, Cost};
use super::figure::{Figure, Part};
use super::programs::AMQP;
use crate::error::Error;

const MESSAGES: u64 = 1_000;
const PEER: &str = "fe2o3-amqp";
/// The share of the peer's instructions that ours may take.
const SHARE: f64 = 1.0 / 3.0;

/// The work, what it is, and the allocations that it may take.
const WORKS: [(&str, &str, Option<f64>); 4] = [
    ("decode", "all sections of a message", None),
    ("encode", "a message into a new buffer", None),
    ("transfer_settled", "a settled delivery", Some(0.0)),
    ("transfer", "a delivery and its disposition", None),
];

pub(crate) fn figures() -> Result<Vec<Figure>, Error> {
    let built = AMQP.build()?;
    let list = callgrind::printed(&built, &["list"])?;
    let count = |work: &str, side: &str| {
        let scenario = format!("{work}/{side}");
        if !list.lines().any(|line| line == scenario) {
            return Ok(None);
        }
        eprintln!("counting {scenario} of {}", AMQP.name);
        callgrind::cost(&AMQP, &built, &scenario, MESSAGES).map(Some)
    };
    let mut figures = Vec::new();
    for (work, about, most) in WORKS {
        let ours = count(work, "ours")?.ok_or_else(|| Error::NoScenario(work.into()))?;
        figures.extend(compared(work, about, ours, count(work, PEER)?, most));
    }
    Ok(figures)
}

/// Instructions, and allocations.
fn compared(work: &str, about: &str, ours: Cost, peer: Option<Cost>, most: Option<f64>) -> [Figure; 2] {
    let peers = |of: fn(Cost) -> f64| peer.map(|cost| (PEER.to_owned(), of(cost))).into_iter().collect();
    let figure = |unit: &str, ours| Figure {
        about: about.into(),
        ..Figure::new(Part::Amqp, format!("amqp/{work} {unit}"), &format!("{unit} per message"), ours)
    };
    [
        Figure {
            peers: peers(|cost| cost.instructions),
            goal: peer.map(|peer| (SHARE * peer.instructions).floor()),
            ..figure("instructions", ours.instructions)
        },
        Figure { peers: peers(|cost| cost.allocations), goal: most, ..figure("allocations", ours.allocations) },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(instructions: f64, allocations: f64) -> Cost {
        Cost { instructions, allocations }
    }

    #[test]
    fn a_third_of_the_instructions_is_the_goal() {
        let met = |ours| compared("decode", "", cost(ours, 1.0), Some(cost(300.0, 9.0)), None)[0].is_met();
        assert_eq!((met(100.0), met(101.0)), (Some(true), Some(false)));
        let [_, allocations] = compared("decode", "", cost(1.0, 4.0), Some(cost(300.0, 9.0)), None);
        assert_eq!((allocations.ours, allocations.peers.get(PEER), allocations.is_met()), (4.0, Some(&9.0), None));
    }

    #[test]
    fn a_settled_transfer_may_not_allocate() {
        let of = |allocations| compared("transfer_settled", "", cost(1.0, allocations), None, Some(0.0));
        assert_eq!((of(0.0)[1].is_met(), of(0.001)[1].is_met()), (Some(true), Some(false)));
        assert_eq!((of(0.0)[0].goal, of(0.0)[0].peers.len()), (None, 0));
    }
}
