use std::path::Path;

use plotters::prelude::*;

use super::{
    super::failure::{Exit, Failure},
    times::{Micros, Times},
};

const COLOURS: [RGBColor; 2] = [RGBColor(0, 98, 178), RGBColor(200, 82, 0)];

/// Draws the latency of each per mille of the messages.
pub(super) fn plot(file: &Path, series: &[(&str, &Times)]) -> Result<(), Failure> {
    let mut svg = String::new();
    draw(&mut svg, series).map_err(|error| Failure::new(Exit::Failure, "Plot", error.to_string()))?;
    let write = |svg: &str| {
        use std::io::Write;
        std::fs::File::options().write(true).create_new(true).open(file)?.write_all(svg.as_bytes())
    };
    write(&svg).map_err(|error| Failure::file(file, &error))
}

fn draw(svg: &mut String, series: &[(&str, &Times)]) -> Result<(), Box<dyn std::error::Error>> {
    let most = series.iter().map(|(_, times)| times.per_mille(1_000)).max().unwrap_or(1).max(1);
    let area = SVGBackend::with_string(svg, (720, 420)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption("latency by percentile", ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(72)
        .build_cartesian_2d(0_u32..1_000, 0_u32..most)?;
    chart
        .configure_mesh()
        .x_desc("messages")
        .x_label_formatter(&|per_mille| format!("{} %", per_mille / 10))
        .y_label_formatter(&|micros| Micros(u64::from(*micros)).to_string())
        .draw()?;
    for ((name, times), colour) in series.iter().zip(COLOURS) {
        let points = (1..=1_000).map(|per_mille: u32| (per_mille, times.per_mille(per_mille as usize)));
        let line = LineSeries::new(points, colour.stroke_width(2));
        chart.draw_series(line)?.label(*name).legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], colour));
    }
    chart.configure_series_labels().background_style(WHITE).border_style(BLACK).draw()?;
    area.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_has_a_line_for_each_series() {
        let (one, other) = (Times::new(vec![1, 2, 3]), Times::new(vec![10, 20, 30]));
        let mut svg = String::new();
        draw(&mut svg, &[("accepted", &one), ("delivered", &other)]).unwrap();
        assert!(svg.starts_with("<svg") && svg.contains("accepted") && svg.contains("delivered"), "{svg}");
        assert!(svg.matches("<polyline").count() >= 2, "{svg}");
    }
}
