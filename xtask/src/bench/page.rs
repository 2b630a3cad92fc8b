//! `docs/benchmarks.md` and its plots, from the results of a full run.

use std::fmt::Write;

use super::figure::{Figure, Part};
use super::notes::note;
use super::plots::{self, SERIES};
use super::results::Results;
use super::rows;
use super::sections::SECTIONS;
use super::table;
use crate::error::{Error, PlotError};
use crate::workspace::write;

const PAGE: &str = "docs/benchmarks.md";
const FOLDER: &str = "docs/benchmarks";
const MOST_LETTERS: usize = 120;
const LEVEL: &str = "Constant cost";

/// Writes the page and the plots.
pub(crate) fn write_all(results: &Results) -> Result<(), Error> {
    for (name, plot) in plots_of(results)? {
        write(format!("{FOLDER}/{name}"), &plot)?;
    }
    write(PAGE, &page(results))
}

/// The page as text.
fn page(results: &Results) -> String {
    let mut page = format!("# Benchmarks\n\n{}\n\n{}\n", summary(results), wrapped(&method(results)));
    for section in SECTIONS {
        let figures = results.part(section.part);
        if figures.is_empty() {
            continue;
        }
        // Writing to a text does not fail.
        let _ = write!(page, "\n## {}\n\n{}\n\n", section.title, wrapped(section.text));
        for plot in plots_of_part(section.part, &figures) {
            let _ = write!(page, "![{}](benchmarks/{})\n\n", plot.title, plot.file);
        }
        let unit = unit(&figures).map(|unit| format!("In {unit}. ")).unwrap_or_default();
        let commit = results.commits.get(&section.part).map(|commit| format!(", at commit `{commit}`"));
        let _ = write!(
            page,
            "{}\n\n{unit}Command: `{}`{}.\n",
            table::markdown(&rows(&figures)),
            section.command,
            commit.unwrap_or_default()
        );
        page.push_str(&wrapped(&behind(&figures)));
    }
    page
}

fn summary(results: &Results) -> String {
    let with_goal = || results.figures.iter().filter_map(Figure::is_met);
    let with_peers = || results.figures.iter().filter(|figure| is_compared(figure));
    let ahead = with_peers().filter(|figure| figure.ahead_of_us().next().is_none()).count();
    let rows = results.part(Part::Counted);
    let text = format!(
        "The cost of this library, compared with its alternatives. A ratio is the figure of this library divided by the \
         other one: below 1 this library is faster, except for rates, where above 1 is faster. {} of {} goals are met. Of \
         {} figures that another library has too, {ahead} are better than those of all others. The reasons for the rest \
         are below each table. A goal is a limit that this project has set for its own figure. A floor is the cost of the \
         same work without a messaging library.",
        with_goal().filter(|&is_met| is_met).count(),
        with_goal().count(),
        with_peers().count(),
    );
    format!("{}\n\n{}", wrapped(&text), table::markdown(&ratios(&rows)))
}

/// In lines of 120 letters; those of an item of a list stand in.
fn wrapped(text: &str) -> String {
    let line = |line: &str| {
        let indent = if line.starts_with("- ") { "  " } else { "" };
        let mut wrapped = String::new();
        let mut length = 0;
        for word in line.split(' ') {
            let letters = word.chars().count();
            if length > 0 && length + 1 + letters > MOST_LETTERS {
                wrapped.push('\n');
                wrapped.push_str(indent);
                length = indent.len();
            } else if length > 0 {
                wrapped.push(' ');
                length += 1;
            }
            wrapped.push_str(word);
            length += letters;
        }
        wrapped
    };
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

/// Whether it stands beside another library. The sides of a codec are the same library with less around it.
fn is_compared(figure: &Figure) -> bool {
    !matches!(figure.part, Part::Codecs | Part::Times) && !figure.peers.is_empty()
}

/// Only the columns with ratios.
fn ratios(figures: &[Figure]) -> table::Rows {
    let rows = table::rows(figures);
    let kept: Vec<usize> = rows
        .first()
        .into_iter()
        .flatten()
        .enumerate()
        .filter_map(|(column, head)| (head == "scenario" || head.contains(" / ") || head == "what").then_some(column))
        .collect();
    rows.iter().map(|row| kept.iter().map(|&column| row[column].clone()).collect()).collect()
}

fn method(results: &Results) -> String {
    format!(
        "## Method\n\n\
         `cargo xtask bench` writes this page and needs valgrind (Debian: `apt-get install valgrind`). `cargo xtask bench \
         --quick` measures this library only, in about a minute after the build, and `cargo xtask bench --only SCENARIO` one \
         scenario or part.\n\n\
         - Instructions are counted by callgrind inside one function, `hot_phase`, on a current-thread runtime. The count for N \
         messages is subtracted from that for 2N, and divided by N, so work that is done once is not included. Counts repeat \
         to within a few instructions on one machine and toolchain. They do not show the cost of cache misses.\n\
         - Allocations are counted by a counting allocator in the same runs.\n\
         - Each scenario of this library and of RustStream is a program of its own, because a second caller of the same \
         functions would keep the compiler from inlining them. `--quick`, and the check of each change, count one program with \
         all scenarios, and are some percent higher.\n\
         - The profile is `lto` of `Cargo.toml`, for every library: `release` with fat link-time optimization and one codegen \
         unit.\n\
         - A library that does not support a scenario has no figure.\n\
         - Measured with {}, {}, on {}.",
        results.toolchain, results.valgrind, results.machine,
    )
}

/// The unit, if it is that of all.
fn unit(figures: &[Figure]) -> Option<&str> {
    let first = figures.first().map(|figure| &*figure.unit)?;
    // A row that has its unit in its last column has none here.
    (!first.is_empty() && figures.iter().all(|figure| figure.unit == first)).then_some(first)
}

/// What misses its goal, or is behind a peer, by the reason why.
fn behind(figures: &[Figure]) -> String {
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    for figure in figures {
        let mut of: Vec<&str> = if is_compared(figure) { figure.ahead_of_us().collect() } else { Vec::new() };
        if figure.is_met() == Some(false) {
            of.insert(0, "the goal");
        }
        if of.is_empty() {
            continue;
        }
        let why = note(&figure.name).unwrap_or("not explained yet.");
        let what = format!("`{}` ({})", table::short(&figure.name), of.join(", "));
        match reasons.iter_mut().find(|(reason, _)| *reason == why) {
            Some((_, figures)) => figures.push(what),
            None => reasons.push((why, vec![what])),
        }
    }
    let lines = reasons.iter().map(|(why, figures)| format!("- {}: {why}\n", figures.join(", ")));
    if reasons.is_empty() {
        String::new()
    } else {
        format!("\nSlower, with the reason:\n\n{}", lines.collect::<String>())
    }
}

struct Plot {
    file: String,
    title: String,
    svg: Result<String, PlotError>,
}

fn plots_of(results: &Results) -> Result<Vec<(String, String)>, Error> {
    let sections = SECTIONS.iter().flat_map(|section| plots_of_part(section.part, &results.part(section.part)));
    sections.map(|plot| Ok((plot.file, plot.svg.map_err(Error::Plot)?))).collect()
}

fn plots_of_part(part: Part, figures: &[Figure]) -> Vec<Plot> {
    let bars = |file: &str, title: &str, unit: &str, figures: &[Figure]| {
        let svg = plots::bars(title, unit, figures);
        (!figures.is_empty()).then(|| Plot { file: format!("{file}.svg"), title: title.into(), svg })
    };
    let some = |is_kept: &dyn Fn(&Figure) -> bool| figures.iter().filter(|f| is_kept(f)).cloned().collect::<Vec<_>>();
    if figures.is_empty() {
        return Vec::new();
    }
    let plots = match part {
        Part::Counted => {
            let is_large = |figure: &Figure| figure.name.ends_with("_1k") || figure.name.starts_with("round_trip");
            let unit = "instructions per message";
            vec![
                bars("consume", "One message", unit, &some(&|figure| !is_large(figure))),
                bars("large", "A message of 1 KB, and a call", unit, &some(&is_large)),
            ]
        }
        Part::Allocations => vec![bars("allocations", "Allocations", "allocations per message", figures)],
        Part::Release => vec![bars("release", "The profile `release`", "instructions per message", figures)],
        Part::Codecs => ["two", "1k"]
            .map(|body| {
                let part = some(&|figure| {
                    figure.name.starts_with("codecs/json/") && figure.name.contains(&format!("/{body}/"))
                });
                let title = format!("JSON, {}", if body == "two" { "two fields" } else { "1 KiB" });
                bars(&format!("codecs_{body}"), &title, "instructions per body", &part)
            })
            .into(),
        Part::Layers => vec![bars(
            "layers",
            "One layer",
            "instructions per message",
            &some(&|figure| figure.goal.is_some() && !figure.name.ends_with("/allocations")),
        )],
        Part::Row => {
            vec![bars("row", "The full receive stack", "instructions per message", &some(&|f| f.goal.is_some()))]
        }
        Part::Growth => {
            let of = |is_level| some(&|figure: &Figure| figure.goal.is_some() == is_level);
            let curves = |(file, title, figures): (String, &str, &[Figure])| {
                let svg = plots::curves(title, "number of items", "instructions per cycle", figures);
                Some(Plot { file, title: title.into(), svg })
            };
            let (level, more) = (of(true), of(false));
            // As many as there are colours.
            let level =
                level.chunks(SERIES).zip(1..).map(|(part, at): (_, u8)| (format!("growth_{at}.svg"), LEVEL, part));
            let more = more.chunks(SERIES).map(|part| ("growth_more.svg".to_owned(), "Growing cost", part));
            level.chain(more).map(curves).collect()
        }
        Part::Times => {
            let calls = some(&|figure| figure.unit == "ns");
            vec![bars("call", "Calls", "nanoseconds", &calls)]
        }
        Part::Brokers => {
            let of = |what: &str| some(&|figure: &Figure| figure.name.starts_with(&format!("brokers/{what} ")));
            let unit = "messages per second";
            vec![
                bars("durable_send", "Send, by the size of windows", unit, &of("send")),
                bars("durable_cycle", "Send, receive and complete", unit, &of("cycle")),
            ]
        }
        // Peers or units differ from row to row.
        Part::Amqp | Part::Transports | Part::Costs | Part::Kinds | Part::Depth | Part::Rest => Vec::new(),
        Part::Wall => {
            let is_rate = |figure: &Figure| figure.more_is_better && !figure.name.contains("latency");
            let latency = |figure: &Figure| figure.unit == "ns";
            vec![
                bars("throughput", "Throughput, more is better", "messages per second", &some(&is_rate)),
                bars("latency", "Latency", "nanoseconds", &some(&latency)),
            ]
        }
    };
    plots.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::read;

    #[test]
    fn the_page_is_what_the_results_and_the_notes_say() {
        let results = Results::read().unwrap();
        assert!(read(PAGE).unwrap() == page(&results), "out of date: `cargo xtask bench --page` writes it again");
        for (name, plot) in plots_of(&results).unwrap() {
            assert!(read(format!("{FOLDER}/{name}")).unwrap() == plot, "{name} is out of date");
        }
    }

    #[test]
    fn a_figure_that_is_behind_has_its_reason() {
        let mut reply = Figure { goal: Some(1.0), ..Figure::new(Part::Counted, "reply", "", 3.0) };
        reply.peers.insert("A".into(), 2.0);
        let missed = |name| Figure { goal: Some(1.0), ..Figure::new(Part::Counted, name, "", 3.0) };
        let (met, why) = (Figure::new(Part::Counted, "bytes", "", 1.0), |name| note(name).unwrap());
        let behind = behind(&[reply, met, missed("json"), missed("router")]);
        let expected = format!(
            "\nSlower, with the reason:\n\n- `reply` (the goal, A): {}\n- `json` (the goal), `router` (the goal): {}\n",
            why("reply"),
            why("json"),
        );
        assert_eq!(behind, expected);
    }

    #[test]
    fn a_part_has_its_command_and_its_commit() {
        let results = Results {
            figures: vec![Figure::new(Part::Amqp, "amqp/decode", "instructions", 3.0)],
            commits: [(Part::Amqp, "0123abc".to_owned())].into(),
            ..Results::default()
        };
        let page = page(&results);
        assert!(page.contains("Command: `cargo xtask bench --only amqp`, at commit `0123abc`.\n"), "{page}");
    }

    #[test]
    fn long_lines_are_broken_between_words() {
        let words = ["- a", &"b".repeat(100), &"c".repeat(30), "d"].join(" ");
        let expected = format!("- a {}\n  {} d\n\ne", "b".repeat(100), "c".repeat(30));
        assert_eq!(wrapped(&format!("{words}\n\ne")), expected);
    }

    #[test]
    fn ratios_come_before_all_else() {
        let mut json = Figure { goal: Some(2.0), ..Figure::new(Part::Counted, "json", "instructions", 3.0) };
        json.peers.insert("A".into(), 6.0);
        let page = page(&Results { figures: vec![json], ..Results::default() });
        let (ratios, method) = (page.find("| json | 0.50 | 1.50 missed |"), page.find("## Method"));
        assert!(ratios.is_some() && ratios < method, "{page}");
        assert!(page.contains("0 of 1 goals are met. Of 1 figures that"), "{page}");
    }
}
