use serde_json::{Value, json};

use crate::{
    contestant::SIZE,
    rounds::{Cost, Plan, Rounds, Runner, SENDERS},
};

/// What one did in one plan.
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    pub(crate) plan: Plan,
    /// `send`, or `cycle`: send, receive and complete.
    pub(crate) what: &'static str,
    pub(crate) per_second: f64,
    /// The slowest and the fastest round.
    pub(crate) range: (f64, f64),
    /// The first contestant by this one: the median of the ratios of the rounds.
    pub(crate) first_to_this: f64,
    pub(crate) this_to_floor: Option<f64>,
    /// CPU time of a message in microseconds, and the ratio of the first one's.
    pub(crate) client: (f64, f64),
    /// The same of the server. `None` where there is none, or its process was not found.
    pub(crate) server: Option<f64>,
    pub(crate) first_to_this_server: Option<f64>,
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
    let of_one = |runner: &Runner| {
        let one = runner.rounds.iter().find(|rounds| matches!(rounds.plan, Plan::Windows { window: 1, .. }))?;
        let ratios = runner.senders.iter().zip(&one.send).map(|(all, one)| all / one.per_second);
        let (per_second, to_one) = (median(runner.senders.iter().copied()), median(ratios));
        Some(Together { name: runner.name, per_second, to_one })
    };
    runners.iter().filter(|runner| !runner.senders.is_empty()).filter_map(of_one).collect()
}

fn written(rounds: &Rounds) -> Option<(f64, f64)> {
    let (first, later) = rounds.written.split_first().filter(|(_, later)| !later.is_empty())?;
    Some((*first, median(later.iter().copied())))
}

type Of = fn(&Rounds) -> &Vec<Cost>;

const WHAT: [(&str, Of); 2] = [("send", |rounds| &rounds.send), ("cycle", |rounds| &rounds.cycle)];

/// The figures of all, in the order of `names`, whose first the others stand beside.
pub(crate) fn figures(runners: &[Runner], names: &[&'static str]) -> Vec<Figure> {
    let find = |name: &str| runners.iter().find(|runner| runner.name == name);
    let ordered: Vec<&Runner> = names.iter().filter_map(|name| find(name)).collect();
    let Some(first) = ordered.first() else { return Vec::new() };
    let mut figures = Vec::new();
    for (at, Rounds { plan, .. }) in first.rounds.iter().enumerate() {
        for (what, of) in WHAT {
            for runner in &ordered {
                let own = of(&runner.rounds[at]);
                if own.is_empty() {
                    continue;
                }
                let to = |one: &Runner, value: fn(&Cost) -> f64| {
                    let one = of(&one.rounds[at]);
                    median(one.iter().zip(own).map(|(one, own)| value(one) / value(own)))
                };
                let middle = |value: fn(&Cost) -> f64| median(own.iter().map(value));
                figures.push(Figure {
                    name: runner.name,
                    plan: *plan,
                    what,
                    per_second: middle(|cost| cost.per_second),
                    range: own
                        .iter()
                        .fold((f64::MAX, 0.0), |(low, high), one| (low.min(one.per_second), high.max(one.per_second))),
                    first_to_this: to(first, |cost| cost.per_second),
                    this_to_floor: find("floor").map(|floor| 1.0 / to(floor, |cost| cost.per_second)),
                    client: (middle(|cost| cost.client), to(first, |cost| cost.client)),
                    server: servers(own).map(|own| median(own.into_iter())),
                    first_to_this_server: servers(of(&first.rounds[at]))
                        .zip(servers(own))
                        .map(|(first, own)| median(first.iter().zip(&own).map(|(first, own)| first / own))),
                    written: written(&runner.rounds[at]).filter(|_| what == "send"),
                });
            }
        }
    }
    figures
}

/// The CPU time of the server in each round, if it was found.
fn servers(rounds: &[Cost]) -> Option<Vec<f64>> {
    rounds.iter().map(|cost| cost.server).collect::<Option<_>>()
}

pub(crate) fn median(values: impl Iterator<Item = f64>) -> f64 {
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
    for part in figures.chunk_by(|one, next| (one.what, one.plan) == (next.what, next.plan)) {
        let Figure { what, plan, .. } = part[0];
        let what = if what == "send" { what } else { "send + receive + complete" };
        let how = match plan {
            Plan::Windows { window, size, .. } => format!("windows of {window}, {size} bytes"),
            Plan::Exchange { tasks, size, .. } => format!("{tasks} senders and {tasks} receivers, {size} bytes"),
        };
        let by_first = format!("{} by it", part[0].name);
        lines.push(format!(
            "\n{what}, {how}\n{:<16} {:>12} {:>24} {:>9} {by_first:>18} {:>16} {:>16} {:>9} {:>9}",
            "",
            "messages/s",
            "slowest to fastest round",
            "by floor",
            "client us (by)",
            "server us (by)",
            "first",
            "bytes"
        ));
        for figure in part {
            // Blank where the floor was not measured.
            let floor = figure.this_to_floor.map_or_else(String::new, |ratio| format!("{ratio:.3}"));
            let range = format!("{:.0} to {:.0}", figure.range.0, figure.range.1);
            let cpu = |time: f64, ratio: Option<f64>| {
                format!("{time:.1}{}", ratio.map_or_else(String::new, |ratio| format!(" ({ratio:.2})")))
            };
            let bytes = |bytes: Option<f64>| bytes.map_or_else(String::new, |bytes| format!("{bytes:.2}"));
            let (first, later) = (figure.written.map(|written| written.0), figure.written.map(|written| written.1));
            let line = format!(
                "{:<16} {:>12.0} {range:>24} {floor:>9} {:>18.2} {:>16} {:>16} {:>9} {:>9}",
                figure.name,
                figure.per_second,
                figure.first_to_this,
                cpu(figure.client.0, Some(figure.client.1)),
                figure.server.map_or_else(String::new, |time| cpu(time, figure.first_to_this_server)),
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
        let (window, tasks) = match figure.plan {
            Plan::Windows { window, .. } => (Some(window), None),
            Plan::Exchange { tasks, .. } => (None, Some(tasks)),
        };
        json!({
            "name": figure.name,
            "window": window,
            "tasks": tasks,
            "size": figure.plan.size(),
            "is_usual_size": figure.plan.size() == SIZE,
            "what": figure.what,
            "per_second": figure.per_second,
            "slowest": figure.range.0,
            "fastest": figure.range.1,
            "first_to_this": figure.first_to_this,
            "this_to_floor": figure.this_to_floor,
            "client_us": figure.client.0,
            "client_first_to_this": figure.client.1,
            "server_us": figure.server,
            "server_first_to_this": figure.first_to_this_server,
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
