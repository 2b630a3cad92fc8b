//! Each transport beside its client by hand: rates by wall clock, and CPU time of both ends.

use serde_json::Value;

use super::callgrind::printed;
use super::figure::{Figure, Part, number};
use super::programs::BROKERS;
use super::table::size;
use crate::error::Error;

/// What `--only` begins with.
const PREFIX: &str = "transports";

/// One of ours, what it stands beside, and how much of the fastest of these it should reach.
const PAIRS: [(&str, &[&str], f64); 3] =
    [("rabbitmq", &["rabbitmq"], 0.95), ("nats", &["nats"], 0.95), ("postgres", &["skip-locked", "pgmq"], 1.0)];

/// The parts of a run, and the options of the program for each.
const PARTS: [(&str, &[&str]); 6] = [
    ("rates", &[]),
    ("sizes", &["--window", "64", "--size", "64", "--size", "65536"]),
    ("tasks", &["--tasks", "16", "--rounds", "5"]),
    ("kinds", &["--kinds"]),
    ("depth", &["--depth"]),
    ("rest", &["--rest", "1000"]),
];

/// What is measured: `transports` all, `transports/nats` one transport, `transports/sizes` one part, `transports/nats/rest` one
/// part of one transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Asked<'a> {
    transport: Option<&'a str>,
    part: Option<&'a str>,
}

impl<'a> Asked<'a> {
    pub(crate) const ALL: Self = Asked { transport: None, part: None };

    /// `None` for a word that asks for something else.
    pub(crate) fn new(only: &'a str) -> Option<Self> {
        let mut words = only.split('/');
        if words.next() != Some(PREFIX) {
            return None;
        }
        let mut asked = Self::ALL;
        for word in words {
            if PAIRS.iter().any(|(transport, ..)| *transport == word) && asked.transport.is_none() {
                asked.transport = Some(word);
            } else if PARTS.iter().any(|(part, _)| *part == word) && asked.part.is_none() {
                asked.part = Some(word);
            } else {
                return None;
            }
        }
        Some(asked)
    }

    fn has(self, transport: &str, part: &str) -> bool {
        self.transport.is_none_or(|asked| asked == transport) && self.part.is_none_or(|asked| asked == part)
    }
}

/// For each transport and part a run of its own, in which the transport and its peers take turns. One whose server cannot be
/// had is said to be left out.
pub(crate) fn figures(asked: Asked<'_>) -> Result<Vec<Figure>, Error> {
    let built = BROKERS.build_with("release", None)?;
    let mut figures = Vec::new();
    for (transport, peers, share) in PAIRS {
        for (part, options) in PARTS.iter().filter(|(part, _)| asked.has(transport, part)) {
            let ours = format!("consign-{transport}");
            let contestants = std::iter::once(&*ours).chain(peers.iter().copied());
            let is_alone = matches!(*part, "kinds" | "depth" | "rest");
            let only: Vec<&str> = if is_alone { vec![transport] } else { contestants.collect() };
            let only = only.into_iter().flat_map(|name| ["--only", name]);
            let arguments: Vec<&str> = only.chain(options.iter().copied()).chain(["--json"]).collect();
            let report: Value = serde_json::from_str(&printed(&built, &arguments)?).map_err(Error::Results)?;
            for left_out in report["left_out"].as_array().into_iter().flatten() {
                eprintln!("LEFT OUT: {left_out}");
            }
            figures.extend(match *part {
                "kinds" => of_kinds(&report),
                "depth" => of_depth(&report),
                "rest" => at_rest(&report),
                _ => read(&report, &ours, share),
            });
        }
    }
    figures.sort_by_key(|figure| figure.part);
    Ok(figures)
}

/// A rate and two CPU times for each plan and for each of what is done. Ours is the first contestant, if it took part.
fn read(report: &Value, ours: &str, share: f64) -> Vec<Figure> {
    let mut figures: Vec<Figure> = Vec::new();
    for one in report["figures"].as_array().into_iter().flatten() {
        let (Some(what), Some(contestant)) = (one["what"].as_str(), one["name"].as_str()) else { continue };
        let transport = ours.strip_prefix("consign-").unwrap_or(ours);
        let how = match (one["window"].as_u64(), one["tasks"].as_u64()) {
            (_, Some(tasks)) => format!("{tasks} to {tasks}"),
            (window, None) => format!("{what} {}", window.unwrap_or_default()),
        };
        let size = match one["size"].as_u64() {
            Some(size) if one["is_usual_size"] == false => format!(" of {size} bytes"),
            _ => String::new(),
        };
        let name = format!("{transport} {how}{size}");
        let number = |key: &str| one[key].as_f64();
        let rate = number("per_second").zip(number("first_to_this"));
        let parts = [
            (
                Part::Transports,
                format!("transports/{name}"),
                "messages per second",
                rate.map(|(rate, by)| (rate.round(), by)),
            ),
            (
                Part::Costs,
                format!("costs/{name}, client"),
                MICROSECONDS,
                number("client_us").zip(number("client_first_to_this")),
            ),
            (
                Part::Costs,
                format!("costs/{name}, server"),
                MICROSECONDS,
                number("server_us").zip(number("server_first_to_this")),
            ),
        ];
        for (part, name, unit, values) in parts {
            let Some((value, ratio)) = values else { continue };
            let is_rate = part == Part::Transports;
            match figures.iter_mut().find(|figure| figure.name == name) {
                None if contestant == ours => {
                    let mut figure = Figure::new(part, name, unit, round(value));
                    figure.more_is_better = is_rate;
                    figures.push(figure);
                }
                None => {}
                Some(figure) => {
                    // What gives the median ratio, which is not that of the medians.
                    let theirs = round(figure.ours / ratio);
                    figure.peers.insert(contestant.into(), theirs);
                    if is_rate {
                        figure.goal = Some(figure.goal.unwrap_or_default().max((theirs * share).round()));
                    }
                }
            }
        }
    }
    figures
}

const MICROSECONDS: &str = "microseconds of CPU time per message";

fn hundredths(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

/// To a tenth where a tenth counts.
fn round(value: f64) -> f64 {
    if value < 1_000.0 { (value * 10.0).round() / 10.0 } else { value.round() }
}

/// The time of a message of each kind. The floor is that of the plain messages of which it consists if it is made by hand.
fn of_kinds(report: &Value) -> Vec<Figure> {
    let transport = report["transport"].as_str().unwrap_or_default();
    let figure = |one: &Value| {
        let what = one["what"].as_str()?;
        let (per_second, to_plain) = (one["per_second"].as_f64()?, one["to_plain"].as_f64()?);
        let messages = if matches!(what, "call" | "dead-lettered") { 2.0 } else { 1.0 };
        let time = 1e6 / per_second;
        let client = one["client_us"].as_f64()?;
        let server = one["server_us"].as_f64().map_or_else(String::new, |server| format!(", server {}", round(server)));
        Some(Figure {
            about: format!("CPU time: client {}{server}", round(client)),
            floor: Some(round(time / to_plain * messages)),
            ..Figure::new(Part::Kinds, format!("kinds/{transport}, {what}"), "microseconds per message", round(time))
        })
    };
    report["kinds"].as_array().into_iter().flatten().filter_map(figure).collect()
}

/// How the time of a message grows with what waits, and the memory of one in flight.
fn of_depth(report: &Value) -> Vec<Figure> {
    let transport = report["transport"].as_str().unwrap_or_default();
    let curve = |key: &str| -> Vec<(u64, f64)> {
        let point = |point: &Value| Some((point[0].as_u64()?, round(point[1].as_f64()?)));
        report[key].as_array().into_iter().flatten().filter_map(point).collect()
    };
    let growth = |(key, what): (&str, &str)| {
        let curve = curve(key);
        let (first, last) = (curve.first()?, curve.last()?);
        let joined = |cell: &dyn Fn(&(u64, f64)) -> String| curve.iter().map(cell).collect::<Vec<_>>().join(" / ");
        let about = format!(
            "{}: {} microseconds, the last by the first",
            joined(&|point| size(point.0)),
            joined(&|point| number(point.1)),
        );
        let name = format!("depth/{transport}, {what}");
        Some(Figure { about, ..Figure::new(Part::Depth, name, "", hundredths(last.1 / first.1)) })
    };
    let memory = |(key, end): (&str, &str)| {
        let name = format!("depth/{transport}, memory in flight, {end}");
        Some(Figure { about: "bytes".into(), ..Figure::new(Part::Depth, name, "", report[key].as_f64()?) })
    };
    let growths = [("depth", "waiting messages"), ("sessions", "waiting sessions")].into_iter().filter_map(growth);
    let memories = [("client_in_flight", "client"), ("server_in_flight", "server")].into_iter().filter_map(memory);
    growths.chain(memories).collect()
}

/// What idle receivers cost. A goal of ten requests a second is that of one client.
fn at_rest(report: &Value) -> Vec<Figure> {
    let (transport, queues) = (report["transport"].as_str().unwrap_or_default(), &report["queues"]);
    let figure = |&(key, unit): &(&str, &str)| {
        let value = report[key].as_f64()?;
        let name = format!("rest/{transport}, {queues} queues, {}", key.replace('_', " "));
        Some(Figure { about: unit.into(), ..Figure::new(Part::Rest, name, unit, round(value)) })
    };
    let keys = [
        ("tasks", "tasks"),
        ("wake_ups_per_second", "per second"),
        ("requests_per_second", "per second"),
        ("client_memory_per_queue", "bytes"),
        ("server_memory_per_queue", "bytes"),
        ("client_cpu_share", "of a core"),
        ("server_cpu_share", "of a core"),
    ];
    keys.iter().filter_map(figure).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_goal_is_a_share_of_the_fastest_peer() {
        let one = |name: &str, rate: f64, ratio: f64| {
            json!({
                "name": name, "window": 64, "size": 1024, "is_usual_size": true, "what": "send", "per_second": rate,
                "first_to_this": ratio, "client_us": 30.0, "client_first_to_this": 1.5,
            })
        };
        let figures = json!([
            one("consign-x", 100.0, 1.0),
            one("slow", 60.0, 2.0),
            one("fast", 190.0, 0.5),
            one("other", 1.0, 9.0)
        ]);
        let figures = read(&json!({ "figures": figures }), "consign-x", 0.95);
        let [rate, client] = &*figures else { panic!("{figures:?}") };
        assert_eq!((&*rate.name, rate.ours, rate.goal), ("transports/x send 64", 100.0, Some(190.0)));
        assert_eq!(rate.peers.get("slow"), Some(&50.0));
        assert_eq!(rate.is_met(), Some(false));
        assert_eq!((&*client.name, client.ours, client.goal), ("costs/x send 64, client", 30.0, None));
        assert_eq!(client.peers.get("slow"), Some(&20.0));
        let without_ours = json!({ "figures": [one("fast", 190.0, 1.0)] });
        assert!(read(&without_ours, "consign-x", 0.95).is_empty());
    }

    #[test]
    fn a_call_by_hand_is_two_messages() {
        let one = |what: &str, per_second: f64, to_plain: f64| json!({ "what": what, "per_second": per_second, "to_plain": to_plain, "client_us": 30.04, "server_us": 50.0 });
        let kinds = json!([one("plain", 10_000.0, 1.0), one("call", 4_000.0, 2.5), one("abandoned", 5_000.0, 2.0)]);
        let figures = of_kinds(&json!({ "transport": "x", "kinds": kinds }));
        let [plain, call, abandoned] = &*figures else { panic!("{figures:?}") };
        assert_eq!((&*plain.name, plain.ours, plain.floor), ("kinds/x, plain", 100.0, Some(100.0)));
        assert_eq!((call.ours, call.floor, &*call.about), (250.0, Some(200.0), "CPU time: client 30, server 50"));
        assert_eq!((abandoned.ours, abandoned.floor), (200.0, Some(100.0)));
    }

    #[test]
    fn growth_is_the_last_size_by_the_first() {
        let depth = json!([[1_000, 20.0], [1_000_000, 25.0]]);
        let report = json!({ "transport": "x", "depth": depth, "sessions": [], "client_in_flight": 700, "server_in_flight": null });
        let figures = of_depth(&report);
        let [depth, memory] = &*figures else { panic!("{figures:?}") };
        assert_eq!((&*depth.name, depth.ours), ("depth/x, waiting messages", 1.25));
        assert_eq!(depth.about, "1k / 1M: 20 / 25 microseconds, the last by the first");
        assert_eq!((&*memory.name, memory.ours), ("depth/x, memory in flight, client", 700.0));
    }

    #[test]
    fn plans_have_names() {
        let one = |plan: Value| {
            let mut one = json!({ "name": "consign-x", "what": "cycle", "per_second": 1.0, "first_to_this": 1.0 });
            one.as_object_mut().unwrap().extend(plan.as_object().unwrap().clone());
            one
        };
        let figures = json!([
            one(json!({ "window": 64, "size": 64, "is_usual_size": false })),
            one(json!({ "tasks": 16, "size": 1024, "is_usual_size": true })),
        ]);
        let figures = read(&json!({ "figures": figures }), "consign-x", 0.95);
        let names: Vec<&str> = figures.iter().map(|figure| &*figure.name).collect();
        assert_eq!(names, ["transports/x cycle 64 of 64 bytes", "transports/x 16 to 16"]);
    }

    #[test]
    fn a_run_may_be_of_one_part() {
        let (transport, part) = (Some("nats"), Some("rest"));
        assert_eq!(Asked::new("transports"), Some(Asked::ALL));
        assert_eq!(Asked::new("transports/nats"), Some(Asked { transport, part: None }));
        for both in ["transports/nats/rest", "transports/rest/nats"] {
            assert_eq!(Asked::new(both), Some(Asked { transport, part }));
        }
        for other in ["transports/kafka", "transports/nats/nats", "brokers", "transportsx"] {
            assert_eq!(Asked::new(other), None, "{other}");
        }
    }

    #[test]
    fn idle_receivers_have_figures() {
        let report = json!({ "transport": "nats", "queues": 1000, "tasks": 3, "requests_per_second": null });
        let figures = at_rest(&report);
        assert_eq!(figures.iter().map(|figure| &*figure.name).collect::<Vec<_>>(), ["rest/nats, 1000 queues, tasks"]);
    }
}
