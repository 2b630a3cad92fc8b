//! The codec, the engine and the client of AMQP 1.0. `benches/amqp` names its scenarios `WORK/SIDE`: those that differ in the side
//! alone do the same work.

use serde_json::Value;

use super::callgrind::{self, Cost, printed};
use super::figure::{Figure, Part};
use super::programs::{AMQP, LOOPBACK};
use crate::error::Error;

const MESSAGES: u64 = 1_000;
const PEER: &str = "fe2o3-amqp";
/// The share of the peer's instructions that ours may take.
const SHARE: f64 = 1.0 / 3.0;
/// How many times the peer's messages a second ours has to send and receive.
const TIMES: f64 = 2.0;

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
    figures.extend(loopback()?);
    Ok(figures)
}

/// Messages a second of the clients, by wall clock. It says what is left out to the standard error.
fn loopback() -> Result<Vec<Figure>, Error> {
    let built = LOOPBACK.build_with("release", None)?;
    let report: Value = serde_json::from_str(&printed(&built, &["--json"])?).map_err(Error::Results)?;
    for left_out in report["left_out"].as_array().into_iter().flatten() {
        let text = |index: usize| left_out[index].as_str().unwrap_or_default();
        eprintln!("LEFT OUT: {}: {}", text(0), text(1));
    }
    Ok(rates(&report))
}

/// The rate of the peer is what gives the median ratio, which is not that of the medians.
fn rates(report: &Value) -> Vec<Figure> {
    let figure = |one: &Value| {
        let (rate, ratio) = (one["ours"].as_f64()?, one["ratio"].as_f64().filter(|ratio| *ratio > 0.0)?);
        let (what, server) = (one["what"].as_str()?, one["server"].as_str()?);
        let peer = (rate / ratio).round();
        Some(Figure {
            about: format!("the server is {server}"),
            peers: [(PEER.to_owned(), peer)].into(),
            goal: Some(TIMES * peer),
            more_is_better: true,
            ..Figure::new(Part::Amqp, format!("amqp/{what} {server}"), "messages per second", rate.round())
        })
    };
    report["figures"].as_array().into_iter().flatten().filter_map(figure).collect()
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
    use serde_json::json;

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
    fn twice_the_messages_of_the_peer_is_the_goal() {
        let one = |ratio: f64| json!({ "server": "engine", "what": "send", "ours": 100.0, "fe2o3-amqp": 9.0, "ratio": ratio });
        let figures = rates(&json!({ "figures": [one(2.0), one(1.9), one(0.0)] }));
        let [met, missed] = &*figures else { panic!("{figures:?}") };
        assert_eq!((&*met.name, met.peers.get(PEER), met.is_met()), ("amqp/send engine", Some(&50.0), Some(true)));
        assert_eq!(missed.is_met(), Some(false));
    }

    #[test]
    fn a_settled_transfer_may_not_allocate() {
        let of = |allocations| compared("transfer_settled", "", cost(1.0, allocations), None, Some(0.0));
        assert_eq!((of(0.0)[1].is_met(), of(0.001)[1].is_met()), (Some(true), Some(false)));
        assert_eq!((of(0.0)[0].goal, of(0.0)[0].peers.len()), (None, 0));
    }
}
