//! Plots: bars that stand beside each other, and curves over sizes.

use super::figure::{Figure, number};
use super::svg::{Anchor, SERIES, Svg};
use super::table::{common_peers, short, size};

const WIDTH: f64 = 860.0;
const LEFT: f64 = 190.0;
const RIGHT: f64 = 70.0;
const BAR: f64 = 12.0;
const GAP: f64 = 12.0;
const TOP: f64 = 62.0;
const BOTTOM: f64 = 40.0;
const PLOT_HEIGHT: f64 = 320.0;
/// Under the name of the upright axis.
const CURVES_TOP: f64 = 84.0;

/// For each figure a bar of ours, of each peer, of the floor, and a mark at the goal.
pub(crate) fn bars(title: &str, unit: &str, figures: &[Figure]) -> String {
    let names = series(figures);
    let group = |figure: &Figure| names.iter().filter(|name| value(figure, name).is_some()).count();
    #[expect(clippy::cast_precision_loss, reason = "a handful")]
    let height_of = |figure: &Figure| group(figure) as f64 * BAR + GAP;
    let height = TOP + figures.iter().map(height_of).sum::<f64>() + BOTTOM;
    let mut svg = Svg::new(WIDTH, height);
    svg.text("title", [12.0, 22.0], Anchor::Start, title);
    let has_goal = figures.iter().any(|figure| figure.goal.is_some());
    legend(&mut svg, &names, has_goal);
    let values =
        figures.iter().flat_map(|figure| names.iter().filter_map(|name| value(figure, name)).chain(figure.goal));
    let scale = Scale::linear(values);
    let (from, to) = (TOP, height - BOTTOM);
    for tick in &scale.ticks {
        let x = LEFT + scale.at(*tick) * (WIDTH - LEFT - RIGHT);
        svg.line("grid", [x, from], [x, to]);
        svg.text("", [x, to + 16.0], Anchor::Middle, &short_number(*tick));
    }
    svg.text("", [LEFT, to + 33.0], Anchor::Start, unit);
    let mut y = TOP + GAP / 2.0;
    for figure in figures {
        let begun = y;
        for (at, name) in names.iter().enumerate() {
            let Some(value) = value(figure, name) else { continue };
            let width = scale.at(value) * (WIDTH - LEFT - RIGHT);
            svg.rect(&class(at), [LEFT, y], width, BAR - 2.0);
            svg.text("", [LEFT + width + 5.0, y + BAR - 3.0], Anchor::Start, &number(value));
            y += BAR;
        }
        svg.text("", [LEFT - 8.0, f64::midpoint(begun, y) + 3.0], Anchor::End, &short(&figure.name));
        if let Some(goal) = figure.goal {
            let x = LEFT + scale.at(goal) * (WIDTH - LEFT - RIGHT);
            svg.line("goal", [x, begun - 2.0], [x, y]);
        }
        y += GAP;
    }
    svg.line("axis", [LEFT, from], [LEFT, to]);
    svg.finish(title)
}

/// A curve for each figure, over the sizes on a logarithmic scale.
pub(crate) fn curves(title: &str, x_label: &str, y_label: &str, figures: &[Figure]) -> String {
    let height = CURVES_TOP + PLOT_HEIGHT + BOTTOM;
    let mut svg = Svg::new(WIDTH, height);
    svg.text("title", [12.0, 22.0], Anchor::Start, title);
    let names: Vec<String> = figures.iter().map(|figure| short(&figure.name)).collect();
    legend(&mut svg, &names, false);
    // A size of nothing stands where 1 would.
    #[expect(clippy::cast_precision_loss, reason = "sizes are small")]
    let x_of = |size: u64| size.max(1) as f64;
    let points = || figures.iter().flat_map(|figure| figure.curve.iter());
    let (x, y) = (
        Scale::logarithmic(points().map(|&(size, _)| x_of(size))),
        Scale::either(points().map(|&(_, cost)| cost).collect::<Vec<_>>()),
    );
    let (left, bottom) = (90.0, height - BOTTOM);
    let place = |at_x: f64, at_y: f64| [left + at_x * (WIDTH - left - RIGHT), bottom - at_y * PLOT_HEIGHT];
    for &tick in &y.ticks {
        let [_, at] = place(0.0, y.at(tick));
        svg.line("grid", [left, at], [WIDTH - RIGHT, at]);
        svg.text("", [left - 6.0, at + 4.0], Anchor::End, &short_number(tick));
    }
    for &tick in &x.ticks {
        let [at, _] = place(x.at(tick), 0.0);
        svg.line("grid", [at, CURVES_TOP], [at, bottom]);
        svg.text("", [at, bottom + 16.0], Anchor::Middle, &short_number(tick));
    }
    svg.text("", [left, bottom + 33.0], Anchor::Start, x_label);
    svg.text("", [12.0, CURVES_TOP - 14.0], Anchor::Start, y_label);
    for (at, figure) in figures.iter().enumerate() {
        let points: Vec<[f64; 2]> =
            figure.curve.iter().map(|&(size, cost)| place(x.at(x_of(size)), y.at(cost))).collect();
        svg.curve(&class(at), &points);
    }
    svg.finish(title)
}

/// Ours, the peers of the table, and the floor if a figure has it.
fn series(figures: &[Figure]) -> Vec<String> {
    let mut names = vec!["ours".to_owned()];
    names.extend(common_peers(figures).into_iter().map(String::from));
    if figures.iter().any(|figure| figure.floor.is_some()) {
        names.push("floor".into());
    }
    names
}

fn value(figure: &Figure, series: &str) -> Option<f64> {
    match series {
        "ours" => Some(figure.ours),
        "floor" => figure.floor,
        peer => figure.peers.get(peer).copied(),
    }
}

fn class(at: usize) -> String {
    format!("s{}", at % SERIES)
}

#[expect(clippy::cast_precision_loss, reason = "names are short")]
fn legend(svg: &mut Svg, names: &[String], has_goal: bool) {
    let mut x = 12.0;
    for (at, name) in names.iter().enumerate() {
        svg.rect(&class(at), [x, 33.0], 10.0, 10.0);
        svg.text("", [x + 14.0, 42.0], Anchor::Start, name);
        x += 30.0 + 7.0 * name.len() as f64;
    }
    if has_goal {
        svg.line("goal", [x + 4.0, 32.0], [x + 4.0, 44.0]);
        svg.text("", [x + 14.0, 42.0], Anchor::Start, "goal");
    }
}

fn short_number(value: f64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "ticks are whole or shown otherwise")]
    if value >= 1_000.0 && value.fract() == 0.0 { size(value as u64) } else { number(value) }
}

/// Where a value stands between the ends of an axis.
struct Scale {
    ends: [f64; 2],
    is_logarithmic: bool,
    ticks: Vec<f64>,
}

impl Scale {
    /// From nothing.
    fn linear(values: impl Iterator<Item = f64>) -> Self {
        let most = values.fold(0.0, f64::max).max(f64::MIN_POSITIVE);
        let step = step(most);
        let mut ticks = vec![0.0];
        while ticks[ticks.len() - 1] + step <= most * 1.001 {
            ticks.push(ticks[ticks.len() - 1] + step);
        }
        Self { ends: [0.0, most], is_logarithmic: false, ticks }
    }

    /// From a power of ten to a power of ten.
    fn logarithmic(values: impl Iterator<Item = f64>) -> Self {
        let (least, most) =
            values.fold((f64::MAX, 1.0_f64), |(least, most), value| (least.min(value), most.max(value)));
        let first = 10.0_f64.powf(least.min(most).max(f64::MIN_POSITIVE).log10().floor());
        let mut ticks = vec![first];
        while ticks[ticks.len() - 1] < most {
            ticks.push(ticks[ticks.len() - 1] * 10.0);
        }
        if ticks.len() == 1 {
            ticks.push(first * 10.0);
        }
        Self { ends: [first, ticks[ticks.len() - 1]], is_logarithmic: true, ticks }
    }

    /// Logarithmic if the largest value would hide the others.
    fn either(values: Vec<f64>) -> Self {
        let (least, most) =
            values.iter().fold((f64::MAX, 0.0_f64), |(least, most), &value| (least.min(value), most.max(value)));
        if most > 20.0 * least { Self::logarithmic(values.into_iter()) } else { Self::linear(values.into_iter()) }
    }

    fn at(&self, value: f64) -> f64 {
        let [from, to] = self.ends;
        if self.is_logarithmic { (value / from).log10() / (to / from).log10() } else { (value - from) / (to - from) }
    }
}

/// Between ticks: 1, 2 or 5 times a power of ten, so that there are four to ten of them.
fn step(most: f64) -> f64 {
    let power = 10.0_f64.powf(most.log10().floor());
    let steps = [0.2, 0.5, 1.0].map(|part| part * power);
    steps.into_iter().find(|step| most / step <= 9.0).unwrap_or(power)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::figure::Part;
    use crate::bench::svg::check_well_formed;

    fn figure(name: &str, ours: f64) -> Figure {
        Figure::new(Part::Counted, name, "instructions", ours)
    }

    #[test]
    fn bars_have_every_series_and_the_goal() {
        let mut json = Figure { goal: Some(1_400.0), floor: Some(900.0), ..figure("json<T>", 2_549.0) };
        json.peers.insert("A & B".into(), 1_588.0);
        let file = bars("One message", "instructions per message", &[json, figure("bytes", 0.0)]);
        assert_eq!(check_well_formed(&file), Ok(()));
        for text in
            [">2,549<", ">1,588<", ">900<", ">A &amp; B<", ">goal<", ">json&lt;T&gt;<", ">instructions per message<"]
        {
            assert!(file.contains(text), "{text} in {file}");
        }
    }

    #[test]
    fn curves_have_both_axes() {
        let curve = vec![(0, 100.0), (1_000, 100.0), (1_000_000, 400_000.0)];
        let file = curves("Growth", "how many", "instructions", &[Figure { curve, ..figure("growth/depth", 1.0) }]);
        assert_eq!(check_well_formed(&file), Ok(()));
        for text in [">how many<", ">instructions<", ">1M<", ">depth<", "<polyline class=\"curve s0\""] {
            assert!(file.contains(text), "{text} in {file}");
        }
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(Scale::linear([2_549.0].into_iter()).ticks, [0.0, 500.0, 1_000.0, 1_500.0, 2_000.0, 2_500.0]);
        assert_eq!(Scale::logarithmic([5.0, 1_200.0].into_iter()).ticks, [1.0, 10.0, 100.0, 1_000.0, 10_000.0]);
        assert!(Scale::logarithmic([100.0].into_iter()).at(100.0).abs() < 1e-9);
    }
}
