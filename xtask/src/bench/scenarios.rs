//! What is counted: one row a scenario.

use super::programs::{CALL, CONSUME, LAYERS, Program, RUSTSTREAM};

/// How much a scenario may cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Goal {
    None,
    AtMost(f64),
    /// So many instructions more than another scenario.
    Over(&'static str, f64),
    /// So many times what these cost together; a floor is named by its own scenario.
    Times(f64, &'static [&'static str]),
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) program: Program,
    pub(crate) messages: u64,
    /// Programs of others that have a scenario of the same name.
    pub(crate) peers: &'static [(&'static str, Program)],
    /// The scenario of the same program that does only what every implementation has to do.
    pub(crate) floor: Option<&'static str>,
    pub(crate) instructions: Goal,
    pub(crate) allocations: Goal,
    /// Whether a change is held to what this cost before.
    pub(crate) is_guarded: bool,
}

const RIVALS: &[(&str, Program)] = &[("RustStream", RUSTSTREAM)];
const TWO_FIELDS: Option<&str> = Some("serde_json");

/// One consumed message, with a counterpart.
const fn consumed(name: &'static str, about: &'static str, floor: Option<&'static str>, goal: Goal) -> Scenario {
    Scenario {
        name,
        about,
        program: CONSUME,
        messages: 1_000,
        peers: RIVALS,
        floor,
        instructions: goal,
        allocations: Goal::AtMost(0.0),
        is_guarded: true,
    }
}

/// One call. What its warming up leaves to be done, as growing a table, is spread over many.
const fn call(name: &'static str, about: &'static str) -> Scenario {
    Scenario { program: CALL, messages: 10_000, ..consumed(name, about, None, Goal::None) }
}

pub(crate) const SCENARIOS: &[Scenario] = &[
    consumed("json", "JSON of two fields", TWO_FIELDS, Goal::AtMost(1_400.0)),
    consumed("bytes", "the raw bytes", None, Goal::AtMost(500.0)),
    consumed("json_one", "`json` with one handler at a time", TWO_FIELDS, Goal::None),
    consumed("bytes_one", "`bytes` with one handler at a time", None, Goal::None),
    consumed("json_1k", "JSON of 1 KB", Some("serde_json_1k"), Goal::Times(1.02, &["serde_json_1k", "bytes"])),
    consumed("one_layer", "`json` through one layer that does nothing", TWO_FIELDS, Goal::None),
    consumed("four_layers", "`json` through four such layers", TWO_FIELDS, Goal::Over("json", 100.0)),
    consumed("router", "`json` with eight routes, the fifth of them", TWO_FIELDS, Goal::AtMost(1_800.0)),
    Scenario {
        allocations: Goal::None,
        ..consumed("reply", "`json`, and a reply of one field", TWO_FIELDS, Goal::None)
    },
    consumed("workers_4", "`json` with four handlers at once", TWO_FIELDS, Goal::None),
    consumed("batch_64", "`json`, 64 at once", TWO_FIELDS, Goal::None),
    Scenario {
        peers: &[],
        floor: Some("send_and_consume_floor"),
        allocations: Goal::None,
        ..consumed("send_and_consume", "JSON of ten fields, sent and consumed", None, Goal::None)
    },
    Scenario {
        peers: &[],
        is_guarded: false,
        ..consumed("json_real_clock", "`json` with the system clock", TWO_FIELDS, Goal::None)
    },
    Scenario {
        program: LAYERS,
        peers: &[],
        allocations: Goal::None,
        ..consumed("all_layers", "every layer of a receiving stack", None, Goal::None)
    },
    Scenario {
        instructions: Goal::AtMost(9_000.0),
        allocations: Goal::AtMost(3.0),
        ..call("round_trip", "a call: a request and its reply, JSON both ways")
    },
    Scenario {
        peers: &[],
        instructions: Goal::Times(1.2, &["round_trip"]),
        allocations: Goal::AtMost(4.0),
        is_guarded: false,
        ..call("round_trip_100k", "the same while 100,000 other calls wait")
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_names_what_is_counted() {
        let names = || SCENARIOS.iter().flat_map(|scenario| [Some(scenario.name), scenario.floor]).flatten();
        for scenario in SCENARIOS {
            let others = match scenario.instructions {
                Goal::Over(other, _) => vec![other],
                Goal::Times(_, others) => others.to_vec(),
                Goal::None | Goal::AtMost(_) => Vec::new(),
            };
            assert!(others.iter().all(|other| names().any(|name| name == *other)), "{}", scenario.name);
        }
    }

    #[test]
    fn every_name_is_there_once() {
        let mut names: Vec<_> = SCENARIOS.iter().map(|scenario| scenario.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), SCENARIOS.len());
    }
}
