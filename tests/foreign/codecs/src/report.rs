//! The tables.

use std::{collections::BTreeMap, fmt::Write};

use serde_json::{Value, json};

use crate::{
    check::{FORMATS, Outcome},
    peers::PEERS,
};

/// Each has an encoder and a decoder of every format.
const LANGUAGES: [&str; 3] = ["Python", "Node", "Rust"];
/// Of a hundred bodies that hold their values so many have to be read.
const NEEDED: usize = 99;
/// It writes fields and variants as numbers, by their order in the type of the sender. The codec refuses them (P-104), so they do not
/// count, and some have to be refused.
pub(crate) const NUMBERED: &str = "serde_cbor, packed";

/// What became of one body.
pub(crate) enum Verdict {
    Read,
    Refused(String),
    /// The body does not hold the value, or the decoder cannot.
    Lost(String),
    Differs(String),
}

impl Verdict {
    /// By the words of the programs.
    pub(crate) fn parse(outcome: &str, reason: Option<String>) -> Self {
        let reason = reason.unwrap_or_default();
        match outcome {
            "same" => Self::Read,
            "refused" => Self::Refused(reason),
            "lost" => Self::Lost(reason),
            _ => Self::Differs(reason),
        }
    }
}

impl From<Outcome> for Verdict {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Same => Self::Read,
            Outcome::Refused(reason) => Self::Refused(reason),
            Outcome::Differs(reason) => Self::Differs(reason),
        }
    }
}

/// Ids of values, by encoder and reason.
type Reasons = BTreeMap<String, Vec<String>>;

#[derive(Default)]
struct Row {
    language: &'static str,
    name: String,
    version: String,
    format: String,
    read: usize,
    refused: Reasons,
    lost: Reasons,
    differing: Reasons,
}

fn count(reasons: &Reasons) -> usize {
    reasons.values().map(Vec::len).sum()
}

/// One table: a row for each encoder, or for each decoder.
#[derive(Default)]
pub(crate) struct Table(Vec<Row>);

impl Table {
    pub(crate) fn add(
        &mut self,
        language: &'static str,
        name: &str,
        version: &str,
        format: &str,
        value: &str,
        verdict: Verdict,
    ) {
        let at = self.0.iter().position(|row| row.language == language && row.name == name && row.format == format);
        let at = at.unwrap_or_else(|| {
            let (name, version, format) = (name.into(), version.into(), format.into());
            self.0.push(Row { language, name, version, format, ..Row::default() });
            self.0.len() - 1
        });
        let row = &mut self.0[at];
        let (reasons, reason) = match verdict {
            Verdict::Read => {
                row.read += 1;
                return;
            }
            Verdict::Refused(reason) => (&mut row.refused, reason),
            Verdict::Lost(reason) => (&mut row.lost, reason),
            Verdict::Differs(reason) => (&mut row.differing, reason),
        };
        reasons.entry(reason).or_default().push(value.into());
    }

    /// Bodies read, and bodies that hold their values, in one format.
    fn share(&self, format: &str) -> (usize, usize) {
        let rows = self.0.iter().filter(|row| row.format == format && row.name != NUMBERED);
        rows.fold((0, 0), |(read, all), row| {
            (read + row.read, all + row.read + count(&row.refused) + count(&row.differing))
        })
    }

    fn passes(&self, peers: &[&str]) -> bool {
        let enough = |(read, all)| read > 0 && read * 100 >= all * NEEDED;
        let formats = FORMATS.iter().all(|(format, _)| enough(self.share(format)));
        let refused = |row: &Row| row.name != NUMBERED || !row.refused.is_empty();
        formats && self.missing(peers).is_empty() && self.0.iter().all(|row| row.differing.is_empty() && refused(row))
    }

    /// The languages, each with a format, and the peers of Rust of which no body was read.
    fn missing(&self, peers: &[&str]) -> Vec<String> {
        let is_read = |is: &dyn Fn(&Row) -> bool| self.0.iter().any(|row| row.read > 0 && is(row));
        let languages = LANGUAGES.iter().flat_map(|language| FORMATS.map(|(format, _)| (*language, format)));
        let languages = languages
            .filter(|(language, format)| !is_read(&|row| row.language == *language && row.format == *format))
            .map(|(language, format)| format!("{language}, {format}"));
        let named = peers.iter().filter(|name| !is_read(&|row| row.name == **name)).map(ToString::to_string);
        let unread = self.0.iter().filter(|row| row.read == 0).map(|row| format!("{}, {}", row.language, row.name));
        languages.chain(named).chain(unread).collect()
    }

    fn text(&self, who: &str, what: &str) -> String {
        let mut text = format!(
            "| language | {who} | version | format | bodies | {what} | refused | lost | differing |\n\
             |---|---|---|---|--:|--:|--:|--:|--:|\n"
        );
        for row in &self.0 {
            let Row { language, name, version, format, read, .. } = row;
            let [refused, lost, differing] = [&row.refused, &row.lost, &row.differing].map(count);
            let all = read + refused + lost + differing;
            let _ = writeln!(
                text,
                "| {language} | {name} | {version} | {format} | {all} | {read} | {refused} | {lost} | {differing} |"
            );
        }
        for (format, _) in FORMATS {
            let (read, all) = self.share(format);
            let _ = writeln!(text, "\n{format}: {read} of {all} ({:.2} %)", percent(read, all));
        }
        text
    }

    fn reasons(&self, title: &str, of: impl Fn(&Row) -> &Reasons) -> String {
        let mut text = String::new();
        for row in &self.0 {
            for (reason, values) in of(row) {
                let reason = reason.replace('\n', "\n    ");
                let _ = writeln!(text, "  {}: {}\n    {reason}", row.name, values.join("; "));
            }
        }
        if text.is_empty() { text } else { format!("\n{title}:\n{text}") }
    }

    fn json(&self) -> Value {
        let reasons = |reasons: &Reasons| -> Value {
            reasons.iter().map(|(reason, values)| json!({ "reason": reason, "values": values })).collect()
        };
        let row = |row: &Row| {
            json!({
                "language": row.language, "name": row.name, "version": row.version, "format": row.format,
                "read": row.read, "refused": reasons(&row.refused), "lost": reasons(&row.lost),
                "differing": reasons(&row.differing),
            })
        };
        let formats: serde_json::Map<String, Value> = FORMATS
            .iter()
            .map(|(format, _)| {
                let (read, all) = self.share(format);
                ((*format).into(), json!({ "read": read, "of": all, "percent": percent(read, all) }))
            })
            .collect();
        json!({ "rows": self.0.iter().map(row).collect::<Value>(), "formats": formats })
    }
}

#[expect(clippy::cast_precision_loss, reason = "thousands of bodies")]
fn percent(part: usize, all: usize) -> f64 {
    if all == 0 { 0.0 } else { part as f64 * 100.0 / all as f64 }
}

/// The encoders and the decoders of Rust.
fn peers() -> [Vec<&'static str>; 2] {
    [false, true].map(|reads| PEERS.iter().filter(|peer| peer.reads || !reads).map(|peer| peer.name).collect())
}

fn missing(names: &[String]) -> String {
    if names.is_empty() { String::new() } else { format!("\nNo body was read of:\n  {}\n", names.join("\n  ")) }
}

/// Bodies of others, and ours.
#[derive(Default)]
pub(crate) struct Report {
    pub(crate) encoders: Table,
    pub(crate) decoders: Table,
}

impl Report {
    /// Whether every format is read well enough both ways, and nothing as another value.
    pub(crate) fn passes(&self) -> bool {
        let [encoders, decoders] = peers();
        self.encoders.passes(&encoders) && self.decoders.passes(&decoders)
    }

    pub(crate) fn text(&self) -> String {
        let Self { encoders, decoders } = self;
        let [all_encoders, all_decoders] = peers();
        [
            "Bodies of others, read by this library\n\n".into(),
            encoders.text("encoder", "read"),
            missing(&encoders.missing(&all_encoders)),
            encoders.reasons("Lost by the encoder", |row| &row.lost),
            encoders.reasons("Refused", |row| &row.refused),
            encoders.reasons("Read as another value", |row| &row.differing),
            "\nBodies of this library, read by others\n\n".into(),
            decoders.text("decoder", "read"),
            missing(&decoders.missing(&all_decoders)),
            decoders.reasons("Lost by the decoder", |row| &row.lost),
            decoders.reasons("Refused", |row| &row.refused),
            decoders.reasons("Read as another value", |row| &row.differing),
        ]
        .concat()
    }

    pub(crate) fn json(&self) -> Value {
        json!({ "passes": self.passes(), "encoders": self.encoders.json(), "decoders": self.decoders.json() })
    }
}
