//! `cargo xtask bench`: what this library costs beside what a user would pick instead. It requires valgrind.

mod amqp;
mod brokers;
pub(crate) mod callgrind;
mod codecs;
mod counted;
mod durable;
mod erased;
pub(crate) mod figure;
pub(crate) mod growth;
pub(crate) mod guard;
mod layers;
pub(crate) mod memory;
mod notes;
mod page;
mod plots;
pub(crate) mod programs;
mod results;
mod row;
mod scenarios;
mod sections;
mod stale;
mod table;
mod transports;
mod wall;

use clap::Args;
use serde_json::{Value, json as value};

use self::counted::Counter;
use self::figure::{Figure, Part};
use self::results::Results;
use self::scenarios::{SCENARIOS, Scenario};
use crate::error::Error;
use crate::options::Output;

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
pub(crate) struct Options {
    /// Count this library alone, without peers and wall-clock time, in about a minute
    #[arg(long)]
    quick: bool,
    /// Write docs/benchmarks.md from the stored results, updated with what was measured
    #[arg(long)]
    page: bool,
    /// List the parts of the page with the commit of each, and which are older than what they measure; measure nothing
    #[arg(long)]
    check: bool,
    /// Build every program that measures, and measure nothing
    #[arg(long)]
    build: bool,
    /// Write benches/baseline.json, and nothing else
    #[arg(long)]
    rebaseline: bool,
    /// Measure only this scenario or this part, such as `layers`, `wall` or `transports/nats/rest`
    #[arg(long, value_name = "SCENARIO")]
    only: Option<String>,
    #[command(flatten)]
    pub(crate) output: Output,
}

pub(crate) fn run(options: &Options) -> Result<(), Error> {
    if options.check {
        return stale::run(&options.output);
    }
    if options.build {
        println!("{} programs are built", programs::build_all()?);
        return Ok(());
    }
    callgrind::present()?;
    if options.rebaseline {
        return guard::rebaseline();
    }
    let figures = match (options.quick, options.only.as_deref()) {
        (true, only) => quick(only)?,
        (false, Some(only)) => one(only)?,
        // The figures are there already.
        (false, None) if options.page => Vec::new(),
        (false, None) => all()?,
    };
    if options.page || !options.quick && options.only.is_none() {
        let results = if options.page { Results::read()? } else { Results::default() };
        let results = if figures.is_empty() { results } else { results.with(figures.clone())? };
        results.write()?;
        page::write_all(&results)?;
    }
    if options.output.json {
        println!("{}", json(&figures));
    } else {
        print(&figures);
    }
    Ok(())
}

/// Ours alone, in programs with all their scenarios.
fn quick(only: Option<&str>) -> Result<Vec<Figure>, Error> {
    let mut counter = Counter::together();
    let is_asked = |scenario: &&Scenario| scenario.is_guarded && only.is_none_or(|only| only == scenario.name);
    counted(&mut counter, SCENARIOS.iter().filter(is_asked), false)
}

/// One scenario, or one part.
fn one(only: &str) -> Result<Vec<Figure>, Error> {
    let name = |full: &'static str| full == only || only == "counted";
    if let Some(asked) = transports::Asked::new(only) {
        return transports::figures(asked);
    }
    let figures = match only {
        "amqp" => amqp::figures(),
        "brokers" => brokers::figures(),
        "codecs" => codecs::figures(),
        "durable" => durable::figures(),
        "erased" => erased::figures(),
        "growth" => growth::figures(|_| true),
        "layers" => layers::figures().and_then(|layers| Ok([layers, row::figures()?].concat())),
        "row" => row::figures(),
        "release" => counted::release(SCENARIOS),
        "call" => wall::calls(),
        "wall" => wall::beside_others(),
        _ => {
            let mut figures = counted(&mut Counter::alone("lto"), SCENARIOS.iter().filter(|s| name(s.name)), true)?;
            figures.extend(growth::figures(|case| case == only)?);
            Ok(figures)
        }
    }?;
    if figures.is_empty() { Err(Error::NoScenario(only.into())) } else { Ok(figures) }
}

fn all() -> Result<Vec<Figure>, Error> {
    let mut figures = counted(&mut Counter::alone("lto"), SCENARIOS.iter(), true)?;
    figures.extend(durable::figures()?);
    figures.sort_by_key(|figure| figure.part);
    figures.extend(counted::release(SCENARIOS)?);
    figures.extend(layers::figures()?);
    figures.extend(row::figures()?);
    figures.extend(codecs::figures()?);
    figures.extend(amqp::figures()?);
    figures.extend(growth::figures(|_| true)?);
    figures.extend(wall::calls()?);
    figures.extend(wall::beside_others()?);
    figures.extend(brokers::figures()?);
    figures.extend(transports::figures(transports::Asked::ALL)?);
    Ok(figures)
}

/// Instructions first, then allocations.
fn counted<'a>(
    counter: &mut Counter,
    scenarios: impl Iterator<Item = &'a Scenario>,
    with_peers: bool,
) -> Result<Vec<Figure>, Error> {
    let mut figures = Vec::new();
    for scenario in scenarios {
        figures.extend(counter.figures(scenario, with_peers)?);
    }
    figures.sort_by_key(|figure| figure.part);
    Ok(figures)
}

fn print(figures: &[Figure]) {
    let parts = figures.chunk_by(|one, next| one.part == next.part);
    for (at, part) in parts.enumerate() {
        let space = if at == 0 { "" } else { "\n" };
        println!("{space}{}\n\n{}", part[0].unit, table::text(&rows(part)));
    }
}

/// The table of the figures of one part.
fn rows(figures: &[Figure]) -> table::Rows {
    match figures[0].part {
        Part::Brokers => brokers::rows(figures),
        Part::Growth => growth::curves(figures),
        Part::Layers => layers::rows(figures),
        _ => table::rows(figures),
    }
}

/// What `--json` prints.
pub(crate) fn json(figures: &[Figure]) -> Value {
    let figure = |figure: &Figure| {
        value!({
            "name": figure.name,
            "unit": figure.unit,
            "ours": figure.ours,
            "peers": figure.peers,
            "floor": figure.floor,
            "goal": figure.goal,
        })
    };
    value!({ "scenarios": figures.iter().map(figure).collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_six_fields_of_each_scenario() {
        let mut json_figure = Figure::new(Part::Counted, "json", "instructions", 3.0);
        json_figure.peers.insert("A".into(), 4.0);
        let printed = json(&[json_figure]);
        let expected = value!({ "scenarios": [
            { "name": "json", "unit": "instructions", "ours": 3.0, "peers": { "A": 4.0 }, "floor": null, "goal": null }
        ]});
        assert_eq!(printed, expected);
    }
}
