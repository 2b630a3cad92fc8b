//! Tables, as text and as Markdown: ratios first, then the figures.

use std::collections::BTreeSet;

use super::figure::{Figure, number};

/// The first row is the head.
pub(crate) type Rows = Vec<Vec<String>>;

/// More peers than this have their ratios alone.
const FULL: usize = 2;
/// A peer has no column if fewer than one in so many figures have it.
const RARE: usize = 4;

/// Ratios of ours to each peer, to the goal and to the floor; then ours, and what it stands beside. A column that nothing
/// is in is left out.
pub(crate) fn rows(figures: &[Figure]) -> Rows {
    let peers = common_peers(figures);
    let mut head = vec!["scenario".to_owned()];
    head.extend(peers.iter().map(|peer| format!("ours / {peer}")));
    head.extend(["ours / goal", "ours / floor", "ours"].map(String::from));
    if peers.len() <= FULL {
        head.extend(peers.iter().map(|peer| (*peer).to_owned()));
    }
    head.extend(["floor", "goal", "what"].map(String::from));
    let figure_row = |figure: &Figure| {
        let mut row = vec![short(&figure.name)];
        row.extend(peers.iter().map(|peer| to_peer(figure, peer)));
        row.push(cell(figure.to_goal()) + mark(figure));
        row.push(cell(figure.to_floor()));
        row.push(number(figure.ours));
        let optional = |value: Option<f64>| value.map(number).unwrap_or_default();
        if peers.len() <= FULL {
            row.extend(peers.iter().map(|peer| optional(figure.peers.get(*peer).copied())));
        }
        row.extend([optional(figure.floor), optional(figure.goal), about(figure, &peers)]);
        row
    };
    let rows: Rows = std::iter::once(head).chain(figures.iter().map(figure_row)).collect();
    without_empty(&rows)
}

/// The peers that at least a fourth of the figures have. The others have no column of their own.
pub(crate) fn common_peers(figures: &[Figure]) -> BTreeSet<&str> {
    let peers = || figures.iter().flat_map(|figure| figure.peers.keys());
    let is_common = |peer: &&String| RARE * peers().filter(|other| other == peer).count() >= figures.len();
    peers().filter(is_common).map(String::as_str).collect()
}

/// What it is about, and the peers without a column.
fn about(figure: &Figure, columns: &BTreeSet<&str>) -> String {
    let rare = figure.peers.keys().filter(|peer| !columns.contains(peer.as_str()));
    let rare = rare.map(|peer| format!("{} of {peer}", to_peer(figure, peer)));
    let all: Vec<String> =
        Some(figure.about.clone()).filter(|about| !about.is_empty()).into_iter().chain(rare).collect();
    all.join("; ")
}

/// Says that a goal is missed.
pub(crate) fn mark(figure: &Figure) -> &'static str {
    if figure.is_met() == Some(false) { " missed" } else { "" }
}

/// `1k`, `1M`.
pub(crate) fn size(size: u64) -> String {
    match size {
        0 => "0".into(),
        size if size.is_multiple_of(1_000_000) => format!("{}M", size / 1_000_000),
        size if size.is_multiple_of(1_000) => format!("{}k", size / 1_000),
        size => size.to_string(),
    }
}

/// The name without what its table says of all of them.
pub(crate) fn short(name: &str) -> String {
    let name = [
        "amqp/",
        "brokers/",
        "transports/",
        "costs/",
        "kinds/",
        "depth/",
        "rest/",
        "codecs/",
        "growth/",
        "layers/",
        "row/",
        "wall/",
        "call/",
    ]
    .iter()
    .find_map(|prefix| name.strip_prefix(prefix))
    .unwrap_or(name);
    let name = ["/allocations", "/release"].iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name);
    name.into()
}

fn to_peer(figure: &Figure, peer: &str) -> String {
    match (figure.peers.get(peer), figure.to_peer(peer)) {
        (None, _) => "-".into(),
        // Something by nothing.
        (Some(_), None) => "more".into(),
        (Some(_), Some(ratio)) => format!("{ratio:.2}"),
    }
}

fn cell(ratio: Option<f64>) -> String {
    ratio.map(|ratio| format!("{ratio:.2}")).unwrap_or_default()
}

fn without_empty(rows: &Rows) -> Rows {
    let width = rows.first().map_or(0, Vec::len);
    let is_filled = |column: &usize| rows.iter().skip(1).any(|row| !row[*column].is_empty());
    let kept: Vec<usize> = (0..width).filter(is_filled).collect();
    rows.iter().map(|row| kept.iter().map(|&column| row[column].clone()).collect()).collect()
}

/// In columns: what begins with a digit stands to the right.
pub(crate) fn text(rows: &Rows) -> String {
    let widths = widths(rows);
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| {
            if is_right(rows, column) { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

pub(crate) fn markdown(rows: &Rows) -> String {
    let Some((head, rest)) = rows.split_first() else { return String::new() };
    let line = |cells: &[String]| {
        format!("| {} |", cells.iter().map(|cell| cell.replace('|', "\\|")).collect::<Vec<_>>().join(" | "))
    };
    let rule: Vec<String> =
        (0..head.len()).map(|column| if is_right(rows, column) { "---:" } else { "---" }.into()).collect();
    let lines = [line(head), line(&rule)].into_iter().chain(rest.iter().map(|row| line(row)));
    lines.collect::<Vec<_>>().join("\n")
}

fn widths(rows: &Rows) -> Vec<usize> {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    (0..rows.first().map_or(0, Vec::len)).map(width).collect()
}

/// Whether a column has numbers, one in a cell.
fn is_right(rows: &Rows, column: usize) -> bool {
    let cells = || rows.iter().skip(1).map(|row| &row[column]).filter(|cell| !cell.is_empty() && *cell != "-");
    let is_number = |cell: &String| cell.starts_with(|first: char| first.is_ascii_digit()) && !cell.contains(" / ");
    column > 0 && rows[0][column] != "what" && cells().next().is_some() && cells().all(is_number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::figure::Part;

    fn figures() -> Vec<Figure> {
        let mut json = Figure::new(Part::Counted, "json", "instructions", 2_549.0);
        json.peers.insert("RustStream".into(), 1_588.0);
        json.goal = Some(1_400.0);
        json.about = "a|b".into();
        let bytes = Figure::new(Part::Counted, "bytes", "instructions", 500.0);
        vec![json, bytes]
    }

    #[test]
    fn ratios_come_first_and_empty_columns_are_left_out() {
        let rows = rows(&figures());
        assert_eq!(rows[0], ["scenario", "ours / RustStream", "ours / goal", "ours", "RustStream", "goal", "what"]);
        assert_eq!(rows[1], ["json", "1.61", "1.82 missed", "2,549", "1,588", "1,400", "a|b"]);
        assert_eq!(rows[2], ["bytes", "-", "", "500", "", "", ""]);
    }

    #[test]
    fn a_rare_peer_has_no_column() {
        let mut all = figures();
        all[0].peers.insert("Rare".into(), 5_098.0);
        let other = Figure { peers: [("RustStream".into(), 1.0)].into(), ..all[1].clone() };
        all.extend(std::iter::repeat_n(other, 3));
        let rows = rows(&all);
        assert_eq!(rows[0][1..3], ["ours / RustStream", "ours / goal"]);
        assert_eq!(rows[1].last().map(String::as_str), Some("a|b; 0.50 of Rare"));
    }

    #[test]
    fn markdown_escapes_and_aligns() {
        let markdown = markdown(&rows(&figures()));
        let lines: Vec<&str> = markdown.lines().collect();
        assert_eq!(lines[1], "| --- | ---: | ---: | ---: | ---: | ---: | --- |");
        assert!(lines[2].ends_with(r"| a\|b |"), "{}", lines[2]);
    }

    #[test]
    fn text_is_in_columns() {
        let rows = vec![vec!["a".to_owned(), "b".to_owned()], vec!["long".to_owned(), "7".to_owned()]];
        assert_eq!(text(&rows), "a     b\nlong  7");
    }

    #[test]
    fn sizes_are_short() {
        assert_eq!([0, 7, 1_000, 2_500, 1_000_000].map(size), ["0", "7", "1k", "2500", "1M"]);
    }
}
