//! A measured figure, what it stands beside, and the ratios between them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What a figure is about. The page has a table for each, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Part {
    /// Instructions of one message or call.
    Counted,
    Allocations,
    /// Instructions again, without link-time optimization.
    Release,
    /// Instructions and allocations of each layer.
    Layers,
    /// Instructions of all receiving layers together.
    Row,
    Codecs,
    /// Instructions and allocations of the AMQP 1.0 codec and engine.
    Amqp,
    Growth,
    /// Wall clock beside others.
    Wall,
    /// Wall clock of what no peer has.
    Times,
    /// Wall clock of durable queues.
    Brokers,
    /// Wall clock of the transports beside their clients by hand.
    Transports,
    /// CPU time of both ends, of the same messages.
    Costs,
    /// Wall clock of kinds of messages on the transports.
    Kinds,
    /// How messages of the transports cost more while more of them wait.
    Depth,
    /// What idle receivers cost.
    Rest,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Figure {
    pub(crate) part: Part,
    pub(crate) name: String,
    pub(crate) about: String,
    pub(crate) unit: String,
    pub(crate) ours: f64,
    /// The figures of others for the same. One that cannot do it is missing.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) peers: BTreeMap<String, f64>,
    /// The figure of the least that any implementation has to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) floor: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) goal: Option<f64>,
    #[serde(default)]
    pub(crate) more_is_better: bool,
    /// The figure at several sizes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) curve: Vec<(u64, f64)>,
    /// The commit at which it was measured.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) commit: String,
}

impl Figure {
    /// A figure of which less is better.
    pub(crate) fn new(part: Part, name: impl Into<String>, unit: &str, ours: f64) -> Self {
        let (name, unit, about) = (name.into(), unit.into(), String::new());
        Self {
            part,
            name,
            about,
            unit,
            ours,
            peers: BTreeMap::new(),
            floor: None,
            goal: None,
            more_is_better: false,
            curve: Vec::new(),
            commit: String::new(),
        }
    }

    /// Ours by the peer's, where the peer has it.
    pub(crate) fn to_peer(&self, peer: &str) -> Option<f64> {
        self.peers.get(peer).and_then(|&theirs| ratio(self.ours, theirs))
    }

    pub(crate) fn to_floor(&self) -> Option<f64> {
        self.floor.and_then(|floor| ratio(self.ours, floor))
    }

    pub(crate) fn to_goal(&self) -> Option<f64> {
        self.goal.and_then(|goal| ratio(self.ours, goal))
    }

    /// Whether the goal is reached, if there is one.
    pub(crate) fn is_met(&self) -> Option<bool> {
        self.goal.map(|goal| self.is_as_good_as(goal))
    }

    /// The peers that do better.
    pub(crate) fn ahead_of_us(&self) -> impl Iterator<Item = &str> {
        self.peers.iter().filter(|&(_, &theirs)| !self.is_as_good_as(theirs)).map(|(peer, _)| peer.as_str())
    }

    fn is_as_good_as(&self, other: f64) -> bool {
        if self.more_is_better { self.ours >= other } else { self.ours <= other }
    }
}

/// Nothing by nothing is the same; something by nothing has no ratio.
pub(crate) fn ratio(ours: f64, other: f64) -> Option<f64> {
    if other > 0.0 { Some(ours / other) } else { (ours <= 0.0).then_some(1.0) }
}

/// With marks between the thousands; a fraction only of what is small.
pub(crate) fn number(value: f64) -> String {
    let text = if value.fract().abs() < 0.000_5 || value.abs() >= 1_000.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.3}").trim_end_matches('0').to_owned()
    };
    let (whole, fraction) = text.split_once('.').map_or((&*text, None), |(whole, fraction)| (whole, Some(fraction)));
    let mut marked = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) && !marked.ends_with('-') {
            marked.push(',');
        }
        marked.push(digit);
    }
    fraction.map_or_else(|| marked.clone(), |fraction| format!("{marked}.{fraction}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(ours: f64) -> Figure {
        Figure::new(Part::Counted, "json", "instructions", ours)
    }

    #[test]
    fn a_goal_is_met_up_to_itself() {
        let with_goal = |ours, more_is_better| Figure { goal: Some(100.0), more_is_better, ..figure(ours) };
        assert_eq!(with_goal(100.0, false).is_met(), Some(true));
        assert_eq!(with_goal(101.0, false).is_met(), Some(false));
        assert_eq!(with_goal(99.0, true).is_met(), Some(false));
        assert_eq!(with_goal(101.0, true).is_met(), Some(true));
        assert_eq!(figure(1.0).is_met(), None);
    }

    #[test]
    fn the_better_peer_is_named() {
        let peers = [("a".to_owned(), 90.0), ("b".to_owned(), 110.0)];
        let less = Figure { peers: peers.clone().into(), ..figure(100.0) };
        assert_eq!(less.ahead_of_us().collect::<Vec<_>>(), ["a"]);
        let more = Figure { more_is_better: true, ..less };
        assert_eq!(more.ahead_of_us().collect::<Vec<_>>(), ["b"]);
        assert_eq!(more.to_peer("b").map(|ratio| (ratio * 100.0).round()), Some(91.0));
        assert_eq!(more.to_peer("c"), None);
    }

    #[test]
    fn none_of_both_is_the_same() {
        assert_eq!(ratio(0.0, 0.0), Some(1.0));
        assert_eq!(ratio(1.0, 0.0), None);
        assert_eq!(ratio(1.0, 2.0), Some(0.5));
    }

    #[test]
    fn numbers_have_marks() {
        let written = [0.0, 12.0, 1_234_567.0, 0.016, 3.002, 999.5, 10_250.4, 100.0, 2.5, -1_234.0].map(number);
        assert_eq!(written, ["0", "12", "1,234,567", "0.016", "3.002", "999.5", "10,250", "100", "2.5", "-1,234"]);
    }
}
