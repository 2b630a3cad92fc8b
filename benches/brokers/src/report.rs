use serde_json::{Value, json};

use crate::rounds::{Rates, Runner, SENDERS, WINDOWS};

/// What one did in windows of one size.
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    pub(crate) window: usize,
    /// `send`, or `cycle`: send, receive and complete.
    pub(crate) what: &'static str,
    pub(crate) per_second: f64,
    /// The slowest and the fastest round.
    pub(crate) range: (f64, f64),
    /// The first contestant by this one: the median of the ratios of the rounds.
    pub(crate) first_to_this: f64,
    pub(crate) this_to_floor: Option<f64>,
    /// Bytes written for a byte of a message: in the first round, and in the median of the others.
    pub(crate) written: Option<(f64, f64)>,
}

/// What the tasks of one did that sent at once.
struct Together {
    name: &'static str,
    per_second: f64,
    /// By one task alone: the median of the ratios of the rounds.
    to_one: f64,
}

fn together(runners: &[Runner]) -> Vec<Together> {
    let measured = runners.iter().filter(|runner| !runner.senders.is_empty());
    measured
        .map(|runner| {
            let ratios = runner.senders.iter().zip(&runner.rates[0].send).map(|(all, one)| all / one);
            let (per_second, to_one) = (median(runner.senders.iter().copied()), median(ratios));
            Together { name: runner.name, per_second, to_one }
        })
        .collect()
}

type Rounds = fn(&Rates) -> &Vec<f64>;

const WHAT: [(&str, Rounds); 2] = [("send", |rates| &rates.send), ("cycle", |rates| &rates.cycle)];

/// The figures of all, in the order of `names`, whose first the others stand beside.
pub(crate) fn figures(runners: &[Runner], names: &[&'static str]) -> Vec<Figure> {
    let find = |name: &str| runners.iter().find(|runner| runner.name == name);
    let ordered: Vec<&Runner> = names.iter().filter_map(|name| find(name)).collect();
    let Some(first) = ordered.first() else { return Vec::new() };
    let mut figures = Vec::new();
    for (at, (window, _)) in WINDOWS.into_iter().enumerate() {
        for (what, rounds) in WHAT {
            for runner in &ordered {
                let own = rounds(&runner.rates[at]);
                if own.is_empty() {
                    continue;
                }
                let ratio = |one: &[f64], other: &[f64]| median(one.iter().zip(other).map(|(one, other)| one / other));
                figures.push(Figure {
                    name: runner.name,
                    window,
                    what,
                    per_second: median(own.iter().copied()),
                    range: own.iter().fold((f64::MAX, 0.0), |(low, high), &rate| (low.min(rate), high.max(rate))),
                    first_to_this: ratio(rounds(&first.rates[at]), own),
                    this_to_floor: find("floor").map(|floor| ratio(own, rounds(&floor.rates[at]))),
                    written: written(&runner.rates[at]).filter(|_| what == "send"),
                });
            }
        }
    }
    figures
}

fn written(rates: &Rates) -> Option<(f64, f64)> {
    let (first, later) = rates.written.split_first().filter(|(_, later)| !later.is_empty())?;
    Some((*first, median(later.iter().copied())))
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 }
}

pub(crate) fn text(figures: &[Figure], runners: &[Runner], left_out: &[(&str, String)]) -> String {
    let mut lines = Vec::new();
    for runner in runners {
        lines.push(format!("{}: {}", runner.name, runner.settings));
    }
    for (name, why) in left_out {
        lines.push(format!("LEFT OUT: {name}: {why}"));
    }
    for part in figures.chunk_by(|one, next| (one.what, one.window) == (next.what, next.window)) {
        let Figure { what, window, .. } = part[0];
        let what = if what == "send" { what } else { "send + receive + complete" };
        let by_first = format!("{} by it", part[0].name);
        lines.push(format!(
            "\n{what}, windows of {window}\n{:<16} {:>12} {:>24} {:>9} {by_first:>18} {:>9} {:>9}",
            "", "messages/s", "slowest to fastest round", "by floor", "first", "bytes"
        ));
        for figure in part {
            // Blank where the floor was not measured.
            let floor = figure.this_to_floor.map_or_else(String::new, |ratio| format!("{ratio:.3}"));
            let range = format!("{:.0} to {:.0}", figure.range.0, figure.range.1);
            let bytes = |bytes: Option<f64>| bytes.map_or_else(String::new, |bytes| format!("{bytes:.2}"));
            let (first, later) = (figure.written.map(|written| written.0), figure.written.map(|written| written.1));
            let line = format!(
                "{:<16} {:>12.0} {range:>24} {floor:>9} {:>18.2} {:>9} {:>9}",
                figure.name,
                figure.per_second,
                figure.first_to_this,
                bytes(first),
                bytes(later)
            );
            lines.push(line.trim_end().to_owned());
        }
    }
    for Together { name, per_second, to_one } in together(runners) {
        let tasks = SENDERS.0;
        lines.push(format!("\n{name}: {tasks} tasks send {per_second:.0} messages/s, {to_one:.2} times one task"));
    }
    lines.join("\n")
}

pub(crate) fn json(figures: &[Figure], runners: &[Runner], left_out: &[(&str, String)]) -> Value {
    let figure = |figure: &Figure| {
        json!({
            "name": figure.name,
            "window": figure.window,
            "what": figure.what,
            "per_second": figure.per_second,
            "slowest": figure.range.0,
            "fastest": figure.range.1,
            "first_to_this": figure.first_to_this,
            "this_to_floor": figure.this_to_floor,
            "first_written": figure.written.map(|written| written.0),
            "written": figure.written.map(|written| written.1),
        })
    };
    let together_json =
        |one: &Together| json!({ "name": one.name, "per_second": one.per_second, "to_one": one.to_one });
    json!({
        "figures": figures.iter().map(figure).collect::<Vec<_>>(),
        "settings": runners.iter().map(|runner| (runner.name, &*runner.settings)).collect::<Vec<_>>(),
        "left_out": left_out,
        "senders": together(runners).iter().map(together_json).collect::<Vec<_>>(),
    })
}
