//! Wall clock. It is noisy, so ratios come first: those of runs that took turns.

use super::callgrind::{figure, figures, printed};
use super::figure::{Figure, Part};
use super::programs::{CALL, WALL};
use crate::error::Error;

const ROUNDS: &str = "5";
/// The peers that are floors: a channel of tokio and the JSON, and how many round trips there are in a second.
const FLOORS: [&str; 2] = ["mpsc", "arithmetic"];
/// Scenarios whose peers are no libraries but other ways to use this one.
const OWN: [&str; 2] = ["driver_", "pipelining_"];
const RIVAL: &str = "RustStream";
/// What the rate of messages is to be at least, by that of `RustStream`: on one thread, and on two.
const GOALS: [(&str, f64); 2] = [("_one", 1.05), ("_two", 0.95)];
/// And by that of the floor, on one thread.
const OF_FLOOR: f64 = 0.72;
const IN_FLIGHT: [&str; 3] = ["in_flight_1", "in_flight_64", "in_flight_1024"];
const CALLS: &str = "200000";

/// The programs that stand beside others.
pub(crate) fn beside_others() -> Result<Vec<Figure>, Error> {
    let built = WALL.build()?;
    let mut all = Vec::new();
    for scenario in printed(&built, &["list"])?.lines() {
        eprintln!("timing {scenario}");
        let peers = printed(&built, &["peers", scenario])?;
        let compared = printed(&built, &["compare", scenario, ROUNDS])?;
        all.extend(read(scenario, &peers.lines().collect::<Vec<_>>(), &compared));
    }
    Ok(all)
}

/// How long a call takes, with so many under way.
pub(crate) fn calls() -> Result<Vec<Figure>, Error> {
    let built = CALL.build()?;
    let mut all = Vec::new();
    for scenario in IN_FLIGHT {
        eprintln!("timing {scenario}");
        let printed = printed(&built, &[scenario, CALLS])?;
        for percentile in ["p50", "p99"] {
            let command = || format!("call {scenario}");
            let time = figure(&printed, percentile).ok_or_else(|| Error::NoCount { command: command() })?;
            let name = format!("call/{scenario}/{percentile}");
            all.push(Figure { about: "ns".into(), ..Figure::new(Part::Times, name, "ns", as_float(time)) });
        }
    }
    Ok(all)
}

/// The figures of a comparison: lines `PEER_NAME VALUE`, and `FIRST_to_PEER_NAME_per_mille VALUE` for the ratios. The first
/// of the peers is what the others stand beside.
fn read(scenario: &str, peers: &[&str], compared: &str) -> Vec<Figure> {
    let Some((ours, others)) = peers.split_first() else { return Vec::new() };
    let own = figures(compared).filter_map(|(name, value)| {
        let name = name.strip_prefix(ours)?.strip_prefix('_')?;
        // What is offered is no result.
        let is_result = !name.starts_with("to_") && !name.starts_with("offered_");
        is_result.then_some((name, as_float(value)))
    });
    let part = if OWN.iter().any(|own| scenario.starts_with(own)) { Part::Times } else { Part::Wall };
    own.map(|(name, value)| {
        let mut read = Figure::new(part, named(scenario, name), unit(name), value);
        read.about = unit(name).into();
        read.more_is_better = name.ends_with("_per_second");
        for other in others {
            // What gives the median ratio, which is not that of the medians.
            let ratio = figure(compared, &format!("{ours}_to_{other}_{name}_per_mille"));
            let by_ratio = ratio.map(|ratio| value / (as_float(ratio.max(1)) / 1_000.0));
            let own = || figure(compared, &format!("{other}_{name}")).map(as_float);
            let Some(theirs) = by_ratio.or_else(own) else { continue };
            if FLOORS.contains(other) {
                read.floor = Some(theirs);
            } else {
                let other = if *other == "ruststream" { RIVAL } else { other };
                read.peers.insert(other.to_owned(), theirs);
            }
        }
        read.goal = scenario.strip_prefix("throughput_").and_then(|case| goal(case, &read));
        read
    })
    .collect()
}

/// The rate that is to be reached.
fn goal(case: &str, read: &Figure) -> Option<f64> {
    let (threads, times) = GOALS.into_iter().find(|(threads, _)| case.ends_with(threads))?;
    let by_rival = times * read.peers.get(RIVAL)?;
    let by_floor = read.floor.filter(|_| threads == "_one").map_or(0.0, |floor| OF_FLOOR * floor);
    Some(by_rival.max(by_floor))
}

/// A rate is what a scenario is about if it does not say otherwise.
fn named(scenario: &str, name: &str) -> String {
    match name.strip_suffix("messages_per_second").map(|name| name.trim_end_matches('_')) {
        Some("") => format!("wall/{scenario}"),
        Some(rate) => format!("wall/{scenario}/{rate}"),
        None => format!("wall/{scenario}/{}", name.trim_end_matches("_ns")),
    }
}

fn unit(name: &str) -> &'static str {
    if name.ends_with("_ns") { "ns" } else { "messages per second" }
}

#[expect(clippy::cast_precision_loss, reason = "far fewer than 2^52")]
fn as_float(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_come_from_the_rounds() {
        let compared = "ours_messages_per_second 900\nmpsc_messages_per_second 1000\nruststream_messages_per_second 400\n\
                        ours_to_mpsc_messages_per_second_per_mille 750\nours_to_ruststream_messages_per_second_per_mille 1125\n";
        let read = |scenario| {
            let mut read = read(scenario, &["ours", "ruststream", "mpsc"], compared);
            assert_eq!(read.len(), 1, "{read:?}");
            read.remove(0)
        };
        let rate = read("throughput_256_one");
        assert_eq!((rate.ours, rate.floor, rate.to_peer(RIVAL)), (900.0, Some(1_200.0), Some(1.125)));
        // The larger one of 0.72 of the floor and 1.05 of the rival.
        assert_eq!((rate.goal, rate.is_met()), (Some(864.0), Some(true)));
        assert!(rate.more_is_better);
        assert_eq!(read("throughput_256_two").goal, Some(760.0));
        assert_eq!(read("labelled_256_two").goal, None);
    }

    #[test]
    fn of_a_time_less_is_better() {
        let read = read("latency_half", &["ours", "other"], "ours_p50_ns 7\nother_p50_ns 9\n");
        let [time] = &*read else { panic!("{read:?}") };
        assert_eq!((&*time.name, time.more_is_better, time.goal), ("wall/latency_half/p50", false, None));
        assert!((time.peers["other"] - 9.0).abs() < 1e-9, "its own, where there is no ratio");
    }

    #[test]
    fn other_ways_to_use_this_library_are_no_peers() {
        let compared = "plain_16_messages_per_second 7\nplain_16_to_plain_1_messages_per_second_per_mille 500\n";
        let read = read("driver_one", &["plain_16", "plain_1"], compared);
        assert_eq!((read[0].part, &*read[0].name), (Part::Times, "wall/driver_one"));
    }
}
