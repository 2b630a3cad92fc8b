//! Plots: bars beside each other, and curves over sizes.

use std::fmt::Write;
use std::ops::Range;

use plotters::chart::MeshStyle;
use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::figure::{Figure, number};
use super::table::{common_peers, short, size};
use crate::error::PlotError;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// A colour on a light page, and the one in its place on a dark page.
type Colour = [RGBColor; 2];

const TEXT: Colour = [RGBColor(0x24, 0x29, 0x2f), RGBColor(0xe6, 0xed, 0xf3)];
const AXIS: Colour = [RGBColor(0x8c, 0x95, 0x9f), RGBColor(0x84, 0x8d, 0x97)];
const GRID: Colour = [RGBColor(0xd0, 0xd7, 0xde), RGBColor(0x30, 0x36, 0x3d)];
const SERIES_COLOURS: [Colour; SERIES] = [
    [RGBColor(0x09, 0x69, 0xda), RGBColor(0x44, 0x93, 0xf8)],
    [RGBColor(0xbc, 0x4c, 0x00), RGBColor(0xf0, 0x88, 0x3e)],
    [RGBColor(0x6e, 0x77, 0x81), RGBColor(0x91, 0x98, 0xa1)],
    [RGBColor(0x1a, 0x7f, 0x37), RGBColor(0x3f, 0xb9, 0x50)],
    [RGBColor(0x82, 0x50, 0xdf), RGBColor(0xab, 0x7d, 0xf8)],
    [RGBColor(0xbf, 0x39, 0x89), RGBColor(0xdb, 0x61, 0xa2)],
];
/// Colours of series that there are.
pub(crate) const SERIES: usize = 6;

const WIDTH: u32 = 860;
/// The title and the legend.
const TOP: u32 = 56;
const RIGHT: u32 = 70;
/// The labels of the axis along the bottom, and its name.
const BOTTOM: u32 = 46;
const LABELS: usize = 9;
/// The height of a bar and of what separates it from the next.
const BAR: u32 = 12;
/// The part of it that is the bar.
const FILLED: f64 = 10.0 / 12.0;
const CURVES_HEIGHT: u32 = 444;
/// plotters divides the size of a font by this.
const FONT_SCALE: f64 = 1.24;

/// Draws for each figure a bar of ours, of each peer, of the floor, and a mark at the goal.
pub(crate) fn bars(title: &str, unit: &str, figures: &[Figure]) -> Result<String, PlotError> {
    let names = series(figures);
    let values = |figure: &Figure| -> Vec<(usize, f64)> {
        names.iter().enumerate().filter_map(|(at, name)| Some((at, value(figure, name)?))).collect()
    };
    // A line for each bar, and one between two figures.
    #[expect(clippy::cast_possible_truncation, reason = "a handful")]
    let lines = figures.iter().map(|figure| 1 + values(figure).len()).sum::<usize>() as u32;
    let most = figures.iter().flat_map(|figure| values(figure).into_iter().map(|(_, value)| value).chain(figure.goal));
    let most = most.fold(f64::MIN_POSITIVE, f64::max);
    let has_goal = figures.iter().any(|figure| figure.goal.is_some());
    plot(title, &names, has_goal, TOP + lines * BAR + BOTTOM, |area| {
        let mut chart = ChartBuilder::on(area)
            .margin_right(RIGHT)
            .x_label_area_size(BOTTOM)
            .y_label_area_size(190)
            .build_cartesian_2d(0.0..most, f64::from(lines)..0.0)?;
        let mut mesh = chart.configure_mesh();
        style(&mut mesh);
        mesh.disable_y_mesh().y_labels(0).x_desc(unit).draw()?;
        let chart = chart.plotting_area();
        let mut y = 0.5;
        for figure in figures {
            let begun = y;
            for (at, value) in values(figure) {
                chart.draw(&Rectangle::new([(0.0, y), (value, y + FILLED)], colour(at).filled()))?;
                let label = Text::new(number(value), (5, 0), text(HPos::Left));
                chart.draw(&(EmptyElement::at((value, y + FILLED / 2.0)) + label))?;
                y += 1.0;
            }
            let name = Text::new(short(&figure.name), (-8, 0), text(HPos::Right));
            chart.draw(&(EmptyElement::at((0.0, f64::midpoint(begun, y))) + name))?;
            if let Some(goal) = figure.goal {
                chart.draw(&PathElement::new([(goal, begun), (goal, y)], TEXT[0].stroke_width(2)))?;
            }
            y += 1.0;
        }
        Ok(())
    })
}

/// Draws a curve for each figure, over the sizes on a logarithmic scale. The costs are on one too if the largest would hide
/// the others.
pub(crate) fn curves(title: &str, x_label: &str, y_label: &str, figures: &[Figure]) -> Result<String, PlotError> {
    let names: Vec<String> = figures.iter().map(|figure| short(&figure.name)).collect();
    let points = || figures.iter().flat_map(|figure| figure.curve.iter());
    let sizes = decades(points().map(|&(size, _)| x_of(size)));
    let (least, most) = ends(points().map(|&(_, cost)| cost));
    let labels = [x_label, y_label];
    plot(title, &names, false, CURVES_HEIGHT, |area| {
        if most > 20.0 * least {
            let costs = decades([least, most].into_iter());
            draw_curves(area, sizes, costs.log_scale(), labels, figures)
        } else {
            draw_curves(area, sizes, 0.0..most, labels, figures)
        }
    })
}

fn draw_curves<Y>(area: &Area, x: Range<f64>, y: Y, labels: [&str; 2], figures: &[Figure]) -> Result<(), PlotError>
where
    Y: AsRangedCoord<Value = f64>,
    Y::CoordDescType: ValueFormatter<f64>,
{
    let [x_label, y_label] = labels;
    let mut chart = ChartBuilder::on(area)
        .margin_right(RIGHT)
        .margin_left(8)
        .margin_top(10)
        .x_label_area_size(BOTTOM)
        .y_label_area_size(62)
        .build_cartesian_2d(x.log_scale(), y)?;
    let mut mesh = chart.configure_mesh();
    style(&mut mesh);
    mesh.x_desc(x_label).y_desc(y_label).draw()?;
    for (at, figure) in figures.iter().enumerate() {
        let points = figure.curve.iter().map(|&(size, cost)| (x_of(size), cost));
        chart.draw_series(LineSeries::new(points, colour(at).stroke_width(2)))?;
    }
    Ok(())
}

/// Draws the title, the legend, and below them what `draw` draws.
fn plot(
    title: &str,
    names: &[String],
    has_goal: bool,
    height: u32,
    draw: impl FnOnce(&Area) -> Result<(), PlotError>,
) -> Result<String, PlotError> {
    let mut file = String::new();
    let area = SVGBackend::with_string(&mut file, (WIDTH, height)).into_drawing_area();
    let (top, rest) = area.split_vertically(TOP);
    let bold = FontDesc::new(FontFamily::SansSerif, 14.0 * FONT_SCALE, FontStyle::Bold);
    top.draw(&Text::new(title, (12, 10), bold.color(&TEXT[0])))?;
    let mut x = 12;
    for (at, name) in names.iter().enumerate() {
        top.draw(&Rectangle::new([(x, 33), (x + 10, 43)], colour(at).filled()))?;
        top.draw(&Text::new(name.as_str(), (x + 14, 38), text(HPos::Left)))?;
        x += 30 + 7 * i32::try_from(name.len()).unwrap_or(i32::MAX / 8);
    }
    if has_goal {
        top.draw(&PathElement::new([(x + 4, 32), (x + 4, 44)], TEXT[0].stroke_width(2)))?;
        top.draw(&Text::new("goal", (x + 14, 38), text(HPos::Left)))?;
    }
    draw(&rest)?;
    area.present()?;
    drop((top, rest, area));
    Ok(with_dark_colours(&file))
}

/// Adds a style sheet, because a drawing of plotters has one colour for light and dark pages.
fn with_dark_colours(file: &str) -> String {
    let mut style = String::new();
    for [RGBColor(r, g, b), RGBColor(dark_r, dark_g, dark_b)] in SERIES_COLOURS.into_iter().chain([TEXT, AXIS, GRID]) {
        for attribute in ["fill", "stroke"] {
            // Writing to a text does not fail.
            let _ = write!(
                style,
                "[{attribute}=\"#{r:02X}{g:02X}{b:02X}\"]{{{attribute}:#{dark_r:02X}{dark_g:02X}{dark_b:02X}}}"
            );
        }
    }
    let (head, body) = file.split_once('\n').unwrap_or_default();
    format!("{head}\n<style>@media(prefers-color-scheme:dark){{{style}}}</style>\n{body}")
}

fn style<X, Y, D: DrawingBackend>(mesh: &mut MeshStyle<'_, '_, X, Y, D>)
where
    X: Ranged<ValueType = f64> + ValueFormatter<f64>,
    Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    mesh.light_line_style(TRANSPARENT)
        .bold_line_style(GRID[0])
        .axis_style(AXIS[0])
        .label_style(text(HPos::Left))
        .x_labels(LABELS)
        .y_labels(LABELS)
        .x_label_formatter(&|value| short_number(*value))
        .y_label_formatter(&|value| short_number(*value));
}

fn text(h_pos: HPos) -> TextStyle<'static> {
    FontDesc::new(FontFamily::SansSerif, 12.0 * FONT_SCALE, FontStyle::Normal)
        .color(&TEXT[0])
        .pos(Pos::new(h_pos, VPos::Center))
}

fn colour(at: usize) -> RGBColor {
    SERIES_COLOURS[at % SERIES][0]
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

fn short_number(value: f64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "ticks are whole or shown otherwise")]
    if value >= 1_000.0 && value.fract() == 0.0 { size(value as u64) } else { number(value) }
}

/// A size of nothing stands where 1 would.
#[expect(clippy::cast_precision_loss, reason = "sizes are small")]
fn x_of(size: u64) -> f64 {
    size.max(1) as f64
}

fn ends(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::MAX, f64::MIN_POSITIVE), |(least, most), value| (least.min(value), most.max(value)))
}

/// From a power of ten to a power of ten.
fn decades(values: impl Iterator<Item = f64>) -> Range<f64> {
    let (least, most) = ends(values);
    let first = least.min(most).max(f64::MIN_POSITIVE).log10().floor();
    10.0_f64.powf(first)..10.0_f64.powf(most.log10().ceil().max(first + 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::figure::Part;

    fn figure(name: &str, ours: f64) -> Figure {
        Figure::new(Part::Counted, name, "instructions", ours)
    }

    /// The texts in their order.
    fn texts(file: &str) -> Vec<&str> {
        file.split("<text ").skip(1).filter_map(|text| text.lines().nth(1)).collect()
    }

    #[test]
    fn bars_have_every_series_and_the_goal() {
        let mut json = Figure { goal: Some(1_400.0), floor: Some(900.0), ..figure("json<T>", 2_549.0) };
        json.peers.insert("A & B".into(), 1_588.0);
        let file = bars("One message", "instructions per message", &[json, figure("bytes", 0.0)]).unwrap();
        let expected = "One message|ours|A &amp; B|floor|goal|instructions per message|0|500|1k|1500|2k|2500|2,549|1,588|900|\
                        json&lt;T&gt;|0|bytes";
        assert_eq!(texts(&file).join("|"), expected);
    }

    #[test]
    fn curves_have_both_axes() {
        let texts = |curve| {
            let figures = [Figure { curve, ..figure("growth/depth", 1.0) }];
            let file = curves("Growth", "how many", "instructions", &figures).unwrap();
            texts(&file).join("|")
        };
        let level = vec![(0, 100.0), (1_000, 100.0), (1_000_000, 400.0)];
        let names = "Growth|depth|instructions|how many";
        assert_eq!(texts(level.clone()), format!("{names}|0|50|100|150|200|250|300|350|400|1|10|100|1k|10k|100k|1M"));
        let steep = [level, vec![(1_000_000, 400_000.0)]].concat();
        assert_eq!(texts(steep), format!("{names}|100|1k|10k|100k|1M|1|10|100|1k|10k|100k|1M"));
        assert_eq!(texts(vec![(1, 100.0)]), format!("{names}|0|20|40|60|80|100|1|10"));
    }

    #[test]
    fn every_colour_has_one_for_a_dark_page() {
        let goal = |name| Figure { goal: Some(1.0), floor: Some(1.0), ..figure(name, 1.0) };
        let file = bars("", "", &[goal("json"), goal("bytes")]).unwrap();
        let (style, drawn) = file.split_once("</style>").unwrap();
        for attribute in ["fill", "stroke"] {
            let start = format!(" {attribute}=\"#");
            let colours: Vec<_> = drawn.split(&start).skip(1).map(|rest| &rest[..6]).collect();
            assert!(!colours.is_empty());
            for colour in colours {
                assert!(style.contains(&format!("[{attribute}=\"#{colour}\"]{{{attribute}:#")), "{attribute} {colour}");
            }
        }
    }
}
