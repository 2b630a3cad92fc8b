//! All peers of a scenario in turn, several times.

use crate::scenario::{Figures, Scenario};

/// Medians of every figure of every peer, and of the ratios of the first peer's to the others'. Of what is counted in
/// nanoseconds the lowest comes too: whatever else the machine does only adds to it.
pub fn compare(scenario: Scenario, rounds: usize, argument: Option<usize>) -> Figures {
    let peers = scenario.peers();
    let rounds: Vec<Vec<Figures>> = (0..rounds.max(1)).map(|round| one_round(scenario, round, argument)).collect();
    let mut all = Figures::new();
    for (at, peer) in peers.iter().enumerate() {
        for (figure, (name, _)) in rounds[0][at].iter().enumerate() {
            let values = || rounds.iter().map(|round| round[at][figure].1);
            all.push((format!("{peer}_{name}"), median(values())));
            if name.ends_with("_ns") {
                all.push((format!("{peer}_lowest_{name}"), values().min().unwrap_or(0)));
            }
        }
    }
    for (at, peer) in peers.iter().enumerate().skip(1) {
        for (figure, (name, _)) in rounds[0][at].iter().enumerate() {
            let ratios = rounds.iter().map(|round| 1_000 * round[0][figure].1 / round[at][figure].1.max(1));
            all.push((format!("{}_to_{peer}_{name}_per_mille", peers[0]), median(ratios)));
        }
    }
    all
}

/// The figures of every peer, in the order of the peers. Each round begins with another.
fn one_round(scenario: Scenario, round: usize, argument: Option<usize>) -> Vec<Figures> {
    let peers = scenario.peers();
    let mut figures = vec![Figures::new(); peers.len()];
    for turn in 0..peers.len() {
        let at = (round + turn) % peers.len();
        figures[at] = scenario.run(peers[at], argument).expect("a peer of this scenario");
    }
    figures
}

fn median(values: impl Iterator<Item = u64>) -> u64 {
    let mut values: Vec<u64> = values.collect();
    values.sort_unstable();
    values[values.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_the_one_in_the_middle() {
        assert_eq!(median([30, 10, 20].into_iter()), 20);
        assert_eq!(median([7].into_iter()), 7);
    }
}
