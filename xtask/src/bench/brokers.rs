//! Durable queues beside each other, by wall clock.

use serde_json::Value;

use super::callgrind::printed;
use super::figure::{Figure, Part, number};
use super::programs::BROKERS;
use super::table;
use crate::error::Error;

/// The contestant that does only what every durable queue has to do.
const FLOOR: &str = "floor";

/// What `cargo xtask bench --only brokers` measures. It says what is left out to the standard error.
pub(crate) fn figures() -> Result<Vec<Figure>, Error> {
    let built = BROKERS.build_with("release", None)?;
    let printed = printed(&built, &["--only", "disk", "--json"])?;
    let report: Value = serde_json::from_str(&printed).map_err(Error::Results)?;
    for left_out in report["left_out"].as_array().into_iter().flatten() {
        eprintln!("LEFT OUT: {}: {}", text(&left_out[0]), text(&left_out[1]));
    }
    Ok(read(&report))
}

/// The share of the floor that is the goal of what is done.
fn share(what: &str) -> f64 {
    if what == "send" { 0.8 } else { 0.5 }
}

/// Bytes that may be written for a byte of a message, where a window has many.
const WRITTEN: f64 = 1.3;
const MANY: u64 = 64;
/// How many times as many messages as one task 16 tasks are to send.
const TOGETHER: f64 = 8.0;

/// A figure for each size of windows and for each of what is done, and for the bytes written. The first contestant is
/// ours.
fn read(report: &Value) -> Vec<Figure> {
    let list = |name: &str| report[name].as_array().cloned().unwrap_or_default();
    let settings = list("settings");
    let settings = settings.iter().map(|pair| format!("{}: {}", text(&pair[0]), text(&pair[1])));
    let settings = settings.collect::<Vec<_>>().join("\n");
    let mut figures: Vec<Figure> = Vec::new();
    for one in list("figures") {
        let what = text(&one["what"]);
        let name = format!("brokers/{what} {}", one["window"]);
        let (Some(rate), Some(ratio)) = (one["per_second"].as_f64(), one["first_to_this"].as_f64()) else { continue };
        match figures.iter_mut().find(|figure| figure.name == name) {
            None => {
                let mut ours = Figure::new(Part::Brokers, name, "messages per second", rate.round());
                (ours.more_is_better, ours.about) = (true, settings.clone());
                figures.push(ours);
            }
            // What gives the median ratio, which is not that of the medians.
            Some(ours) if one["name"] == FLOOR => {
                let floor = (ours.ours / ratio).round();
                (ours.floor, ours.goal) = (Some(floor), Some((share(what) * floor).round()));
            }
            Some(ours) => {
                ours.peers.insert(text(&one["name"]).into(), (ours.ours / ratio).round());
            }
        }
    }
    figures.extend(written(report, "written", "bytes"));
    figures.extend(written(report, "first_written", "first bytes"));
    figures.extend(together(report));
    figures
}

/// Bytes written for each byte of a message, by the size of windows.
fn written(report: &Value, field: &str, what: &str) -> Vec<Figure> {
    let mut figures: Vec<Figure> = Vec::new();
    for one in report["figures"].as_array().into_iter().flatten() {
        let (Some(bytes), Some(window)) = (one[field].as_f64(), one["window"].as_u64()) else { continue };
        let (name, bytes) = (format!("brokers/{what} {window}"), (bytes * 100.0).round() / 100.0);
        match figures.iter_mut().find(|figure| figure.name == name) {
            None => {
                let ours = Figure::new(Part::Brokers, name, "bytes written for a byte of a message", bytes);
                let goal = (field == "written" && window >= MANY).then_some(WRITTEN);
                figures.push(Figure { goal, ..ours });
            }
            Some(ours) if one["name"] == FLOOR => ours.floor = Some(bytes),
            Some(ours) => {
                ours.peers.insert(text(&one["name"]).into(), bytes);
            }
        }
    }
    figures
}

/// What tasks send that do so at once, beside one task.
fn together(report: &Value) -> Option<Figure> {
    let ours = report["senders"].get(0)?;
    let (rate, to_one) = (ours["per_second"].as_f64()?, ours["to_one"].as_f64()?);
    let figure = Figure::new(Part::Brokers, "brokers/16 senders", "messages per second", rate.round());
    Some(Figure { more_is_better: true, goal: Some((TOGETHER * rate / to_one).round()), ..figure })
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A row for each contestant: in each figure its rate, and how many times that ours is. The slowest come last.
pub(crate) fn rows(figures: &[Figure]) -> table::Rows {
    let mut head = vec![String::new()];
    head.extend(figures.iter().map(|figure| table::short(&figure.name)));
    head.push("how".into());
    let cell = |rate: Option<f64>, ratio: Option<f64>| match (rate, ratio) {
        (Some(rate), Some(ratio)) => format!("{} ({ratio:.2})", number(rate)),
        _ => "-".into(),
    };
    let settings = |name: &str| {
        let lines = figures.first().into_iter().flat_map(|figure| figure.about.lines());
        let found = lines.filter_map(|line| line.split_once(": ")).find(|(of, _)| *of == name);
        found.map(|(_, settings)| settings.to_owned()).unwrap_or_default()
    };
    let row = |name: &str, of: &dyn Fn(&Figure) -> String| {
        let cells = figures.iter().map(of);
        std::iter::once(name.to_owned()).chain(cells).chain([settings(name)]).collect::<Vec<_>>()
    };
    let mut peers: Vec<&String> = figures.iter().flat_map(|figure| figure.peers.keys()).collect();
    peers.sort_unstable();
    peers.dedup();
    let speed = |peer: &&String| figures.iter().filter_map(|figure| figure.to_peer(peer)).sum::<f64>();
    peers.sort_by(|one, other| speed(one).total_cmp(&speed(other)));
    let mut rows = vec![head];
    rows.push(row(FLOOR, &|figure| cell(figure.floor, figure.to_floor())));
    rows.push(row("durable", &|figure| number(figure.ours)));
    rows.extend(
        peers.iter().map(|peer| row(peer, &|figure| cell(figure.peers.get(*peer).copied(), figure.to_peer(peer)))),
    );
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn bytes_and_tasks_have_goals() {
        let one = |name: &str, window: u64, written: f64| json!({ "name": name, "window": window, "what": "send", "written": written, "first_written": 9.0 });
        let report = json!({
            "figures": [one("durable", 1, 57.0), one("durable", 64, 1.204), one("floor", 64, 1.02), one("sqlite", 64, 2.5)],
            "senders": [{ "name": "durable", "per_second": 900.0, "to_one": 9.0 }],
        });
        let figures = read(&report);
        let names: Vec<_> = figures.iter().map(|figure| &*figure.name).collect();
        let expected = ["bytes 1", "bytes 64", "first bytes 1", "first bytes 64", "16 senders"];
        assert_eq!(names, expected.map(|name| format!("brokers/{name}")));
        let met: Vec<_> = figures.iter().map(Figure::is_met).collect();
        assert_eq!(met, [None, Some(true), None, None, Some(true)]);
        assert_eq!((figures[1].ours, figures[1].floor, figures[4].goal), (1.2, Some(1.02), Some(800.0)));
    }

    #[test]
    fn ratios_stand_beside_rates() {
        let one = |name: &str, rate: f64, ratio: f64| json!({ "name": name, "window": 64, "what": "send", "per_second": rate, "first_to_this": ratio });
        let report = json!({
            "figures": [one("durable", 100.0, 1.0), one("floor", 390.0, 0.25), one("nats", 10.0, 8.0)],
            "settings": [["durable", "as it is"], ["nats", "file storage"]],
            "left_out": [["sqlite", "not here"]],
        });
        let figures = read(&report);
        let [figure] = &*figures else { panic!("{figures:?}") };
        assert_eq!((&*figure.name, figure.ours, figure.floor), ("brokers/send 64", 100.0, Some(400.0)));
        assert_eq!(figure.goal, Some(320.0));
        assert_eq!(figure.to_peer("nats").map(|ratio| (ratio * 10.0).round()), Some(77.0));
        let rows = rows(&figures);
        assert_eq!(rows[0], ["", "send 64", "how"]);
        assert_eq!(rows[1], ["floor", "400 (0.25)", ""]);
        assert_eq!(rows[2], ["durable", "100", "as it is"]);
        assert_eq!(rows[3], ["nats", "13 (7.69)", "file storage"]);
    }
}
