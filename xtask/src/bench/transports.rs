//! Each transport beside its client by hand, by wall clock.

use serde_json::Value;

use super::callgrind::printed;
use super::figure::{Figure, Part};
use super::programs::BROKERS;
use crate::error::Error;

/// One of ours, what it stands beside, and how much of the fastest of these it should reach.
const PAIRS: [(&str, &[&str], f64); 3] = [
    ("consign-rabbitmq", &["rabbitmq"], 0.95),
    ("consign-nats", &["nats"], 0.95),
    ("consign-postgres", &["skip-locked", "pgmq"], 1.0),
];

/// What `cargo xtask bench --only transports` measures: for each transport a run of its own, in which it and its peers take
/// turns. One whose server cannot be had is said to be left out.
pub(crate) fn figures() -> Result<Vec<Figure>, Error> {
    let built = BROKERS.build_with("release", None)?;
    let mut figures = Vec::new();
    for (ours, peers, share) in PAIRS {
        let only = std::iter::once(&ours).chain(peers).flat_map(|name| ["--only", name]);
        let arguments: Vec<&str> = only.chain(["--json"]).collect();
        let report: Value = serde_json::from_str(&printed(&built, &arguments)?).map_err(Error::Results)?;
        for left_out in report["left_out"].as_array().into_iter().flatten() {
            eprintln!("LEFT OUT: {left_out}");
        }
        figures.extend(read(&report, ours, share));
    }
    Ok(figures)
}

/// A figure for each size of windows and for each of what is done. Ours is the first contestant, if it took part.
fn read(report: &Value, ours: &str, share: f64) -> Vec<Figure> {
    let mut figures: Vec<Figure> = Vec::new();
    for one in report["figures"].as_array().into_iter().flatten() {
        let (Some(what), Some(contestant)) = (one["what"].as_str(), one["name"].as_str()) else { continue };
        let (Some(rate), Some(ratio)) = (one["per_second"].as_f64(), one["first_to_this"].as_f64()) else { continue };
        let transport = ours.strip_prefix("consign-").unwrap_or(ours);
        let name = format!("transports/{transport} {what} {}", one["window"]);
        match figures.iter_mut().find(|figure| figure.name == name) {
            None if contestant == ours => {
                let mut figure = Figure::new(Part::Transports, name, "messages per second", rate.round());
                figure.more_is_better = true;
                figures.push(figure);
            }
            None => {}
            Some(figure) => {
                // What gives the median ratio, which is not that of the medians.
                let theirs = (figure.ours / ratio).round();
                figure.peers.insert(contestant.into(), theirs);
                figure.goal = Some(figure.goal.unwrap_or_default().max((theirs * share).round()));
            }
        }
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_goal_is_a_share_of_the_fastest_peer() {
        let one = |name: &str, rate: f64, ratio: f64| json!({ "name": name, "window": 64, "what": "send", "per_second": rate, "first_to_this": ratio });
        let figures = json!([
            one("consign-x", 100.0, 1.0),
            one("slow", 60.0, 2.0),
            one("fast", 190.0, 0.5),
            one("other", 1.0, 9.0)
        ]);
        let figures = read(&json!({ "figures": figures }), "consign-x", 0.95);
        let [figure] = &*figures else { panic!("{figures:?}") };
        assert_eq!((&*figure.name, figure.ours, figure.goal), ("transports/x send 64", 100.0, Some(190.0)));
        assert_eq!(figure.peers.get("slow"), Some(&50.0));
        assert_eq!(figure.is_met(), Some(false));
        let without_ours = json!({ "figures": [one("fast", 190.0, 1.0)] });
        assert!(read(&without_ours, "consign-x", 0.95).is_empty());
    }
}
