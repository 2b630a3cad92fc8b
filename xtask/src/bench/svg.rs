//! Writes SVG: rectangles, lines and texts, in colours for a light and a dark page.

use std::fmt::Write;

/// Colours by what they stand for. Series are `s0` to `s5`.
const STYLE: &str = "text{font:12px system-ui,sans-serif;fill:#24292f}.title{font-weight:600;font-size:14px}\
.axis{stroke:#8c959f;stroke-width:1}.grid{stroke:#d0d7de;stroke-width:1}.goal{stroke:#24292f;stroke-width:2}\
.s0{fill:#0969da;stroke:#0969da}.s1{fill:#bc4c00;stroke:#bc4c00}.s2{fill:#6e7781;stroke:#6e7781}\
.s3{fill:#1a7f37;stroke:#1a7f37}.s4{fill:#8250df;stroke:#8250df}.s5{fill:#bf3989;stroke:#bf3989}\
.curve{fill:none;stroke-width:2}\
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.axis{stroke:#848d97}.grid{stroke:#30363d}.goal{stroke:#e6edf3}\
.s0{fill:#4493f8;stroke:#4493f8}.s1{fill:#f0883e;stroke:#f0883e}.s2{fill:#9198a1;stroke:#9198a1}\
.s3{fill:#3fb950;stroke:#3fb950}.s4{fill:#ab7df8;stroke:#ab7df8}.s5{fill:#db61a2;stroke:#db61a2}.curve{fill:none}}";

/// Colours of series that there are.
pub(crate) const SERIES: usize = 6;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

pub(crate) struct Svg {
    width: f64,
    height: f64,
    body: String,
}

impl Svg {
    pub(crate) fn new(width: f64, height: f64) -> Self {
        Self { width, height, body: String::new() }
    }

    pub(crate) fn rect(&mut self, class: &str, [x, y]: [f64; 2], width: f64, height: f64) {
        let (width, height) = (width.max(0.0), height.max(0.0));
        self.element(&format!(
            "<rect class=\"{}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"/>",
            escaped(class)
        ));
    }

    pub(crate) fn line(&mut self, class: &str, [x1, y1]: [f64; 2], [x2, y2]: [f64; 2]) {
        self.element(&format!(
            "<line class=\"{}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>",
            escaped(class)
        ));
    }

    pub(crate) fn curve(&mut self, class: &str, points: &[[f64; 2]]) {
        let points: Vec<String> = points.iter().map(|[x, y]| format!("{x:.1},{y:.1}")).collect();
        self.element(&format!("<polyline class=\"curve {}\" points=\"{}\"/>", escaped(class), points.join(" ")));
    }

    pub(crate) fn text(&mut self, class: &str, [x, y]: [f64; 2], anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let (class, text) = (escaped(class), escaped(text));
        self.element(&format!(
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"
        ));
    }

    fn element(&mut self, element: &str) {
        self.body.push_str(element);
        self.body.push('\n');
    }

    /// The file. Who cannot see it is told the title.
    pub(crate) fn finish(self, title: &str) -> String {
        let Self { width, height, body } = self;
        let mut file = String::new();
        // Writing to a text does not fail.
        let _ = writeln!(
            file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
             height=\"{height:.0}\" role=\"img\">\n<title>{}</title>\n<style>{STYLE}</style>\n{body}</svg>",
            escaped(title)
        );
        file
    }
}

/// What may stand in a text and in an attribute.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            letter if letter.is_control() => escaped.push(' '),
            letter => escaped.push(letter),
        }
    }
    escaped
}

/// Fails for what is no well-formed XML: elements that do not close in order, a bare `<`, `&` or quote.
#[cfg(test)]
pub(crate) fn check_well_formed(file: &str) -> Result<(), String> {
    let mut open = Vec::new();
    let mut rest = file;
    while let Some(at) = rest.find('<') {
        let text = &rest[..at];
        let entities = ["amp;", "lt;", "gt;", "quot;"];
        if text.contains('>') && open.last() != Some(&"style")
            || text.split('&').skip(1).any(|after| !entities.iter().any(|entity| after.starts_with(entity)))
        {
            return Err(format!("bare mark in {text:?}"));
        }
        let end = rest.find('>').ok_or("a tag has no end")?;
        let tag = &rest[at + 1..end];
        if tag.contains('<') || !tag.matches('"').count().is_multiple_of(2) {
            return Err(format!("tag {tag:?}"));
        }
        let name = |tag: &'_ str| tag.len() - tag.trim_start_matches(|c: char| c.is_ascii_alphanumeric()).len();
        if let Some(closed) = tag.strip_prefix('/') {
            if open.pop() != Some(closed) {
                return Err(format!("{closed} closes nothing"));
            }
        } else if !tag.ends_with('/') {
            open.push(&tag[..name(tag)]);
        }
        rest = &rest[end + 1..];
    }
    if open.is_empty() && rest.trim().is_empty() {
        Ok(())
    } else {
        Err(format!("left open: {open:?}, after: {rest:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped() {
        let mut svg = Svg::new(10.0, 10.0);
        svg.text("a\"b", [1.0, 2.0], Anchor::End, "Body<Order> & \"more\"\n");
        svg.rect("s0", [0.0, 0.0], -1.0, 2.0);
        svg.line("axis", [0.0, 0.0], [1.0, 1.0]);
        svg.curve("s1", &[[0.0, 0.0], [1.5, 2.25]]);
        let file = svg.finish("a < b");
        assert_eq!(check_well_formed(&file), Ok(()));
        assert!(file.contains("Body&lt;Order&gt; &amp; &quot;more&quot; <"), "{file}");
        assert!(file.contains("<title>a &lt; b</title>") && file.contains("class=\"a&quot;b\""), "{file}");
        assert!(file.contains("width=\"0.0\""), "{file}");
    }

    #[test]
    fn what_is_not_well_formed_is_found() {
        for wrong in ["<a>", "<a></b>", "<a>&</a>", "<a>x > y</a>", "<a b=\"></a>", "<a></a>x", "<a <b/></a>"] {
            assert!(check_well_formed(wrong).is_err(), "{wrong}");
        }
    }
}
