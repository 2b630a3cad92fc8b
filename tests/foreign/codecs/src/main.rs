//! `foreign-codecs FOLDER [--json]`: bodies by encoders of Python, Node and Rust read into typed values, and the bodies that
//! this library writes read by their decoders.
//!
//! FOLDER is what `scripts/foreign` prints. The process fails if a body is read as another value, or if too many are refused.
#![forbid(unsafe_code)]

mod check;
mod described;
mod peers;
mod programs;
mod report;
mod types;

use std::{path::PathBuf, process::ExitCode};

use base64::{Engine, engine::general_purpose::STANDARD};
use consign::codecs::{Cbor, Codecs, Json, MessagePack};
use serde::Deserialize;
use serde_json::Value;

use crate::{
    check::{Checks, FORMATS, Outcome, Set},
    described::Described,
    peers::PEERS,
    programs::{Program, Read, Written},
    report::{Report, Verdict},
    types::TYPES,
};

type Error = Box<dyn std::error::Error>;

/// One entry of `values.json`.
#[derive(Deserialize)]
struct Entry {
    id: String,
    #[serde(rename = "type")]
    type_name: String,
    value: Value,
    /// The value that is read, if that is not the value as it is.
    expected: Option<Value>,
    /// What this library writes of it, if that is not the value as it is; `false` if it is not written.
    ours: Option<Value>,
}

impl Entry {
    fn is_written(&self) -> bool {
        self.ours != Some(Value::Bool(false))
    }

    fn expected(&self) -> Described<'_> {
        Described(self.expected.as_ref().unwrap_or(&self.value))
    }

    fn checks(&self) -> Result<Checks, Error> {
        let found = TYPES.iter().find(|(name, _)| *name == self.type_name);
        found.map(|(_, checks)| *checks).ok_or_else(|| format!("values.json: no type is {}", self.type_name).into())
    }
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(folder) = arguments.next() else {
        eprintln!("foreign-codecs FOLDER [--json]");
        return ExitCode::from(2);
    };
    let json = arguments.next().as_deref() == Some("--json");
    match run(&PathBuf::from(folder)) {
        Ok(report) => {
            println!("{}", if json { report.json().to_string() } else { report.text() });
            if report.passes() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(folder: &std::path::Path) -> Result<Report, Error> {
    let package = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let values = package.join("values.json");
    let entries: Vec<Entry> = serde_json::from_str(&std::fs::read_to_string(&values)?)?;
    let codecs = Codecs::builder().with(Json::default()).with(MessagePack).with(Cbor).build()?;
    let mut report = Report::default();

    let ours = written_by_us(&codecs, &entries)?;
    let bodies = folder.join("ours.jsonl");
    std::fs::write(&bodies, programs::lines(&ours)?)?;
    let programs = Program::all(&package, folder);
    let writing = programs.each_ref().map(|program| program.start(&["write".as_ref(), values.as_ref()]));
    let reading =
        programs.each_ref().map(|program| program.start(&["read".as_ref(), values.as_ref(), bodies.as_ref()]));

    for (program, lines) in programs.iter().zip(writing) {
        for line in lines.finish::<Written>()? {
            read_foreign(&codecs, &entries, program.language, line, &mut report)?;
        }
    }
    for (program, lines) in programs.iter().zip(reading) {
        for Read { decoder, version, format, value, outcome, reason } in lines.finish::<Read>()? {
            let verdict = Verdict::parse(&outcome, reason);
            report.decoders.add(program.language, &decoder, &version, &format, &value, verdict);
        }
    }
    peers_in_rust(&codecs, &entries, &ours, &mut report)?;
    Ok(report)
}

/// What this library writes of each value in each format.
fn written_by_us(codecs: &Codecs<Set>, entries: &[Entry]) -> Result<Vec<Written>, Error> {
    let mut ours = Vec::new();
    for entry in entries.iter().filter(|entry| entry.is_written()) {
        for (format, content_type) in FORMATS {
            // An error is no body: JSON has no NaN.
            let body = (entry.checks()?.write)(codecs, content_type, entry.expected()).ok();
            if let Some(body) = body {
                ours.push(Written::ours(format, &entry.id, STANDARD.encode(body)));
            }
        }
    }
    Ok(ours)
}

fn entry<'e>(entries: &'e [Entry], id: &str) -> Result<&'e Entry, Error> {
    entries.iter().find(|entry| entry.id == id).ok_or_else(|| format!("values.json has no {id}").into())
}

fn read_foreign(
    codecs: &Codecs<Set>,
    entries: &[Entry],
    language: &'static str,
    line: Written,
    report: &mut Report,
) -> Result<(), Error> {
    let entry = entry(entries, &line.value)?;
    let body = line.body.map(|body| STANDARD.decode(body)).transpose()?;
    let verdict = verdict(codecs, entry, &line.format, body, line.lost)?;
    report.encoders.add(language, &line.encoder, &line.version, &line.format, &line.value, verdict);
    Ok(())
}

/// What this library makes of a body.
fn verdict(
    codecs: &Codecs<Set>,
    entry: &Entry,
    format: &str,
    body: Option<Vec<u8>>,
    lost: Option<String>,
) -> Result<Verdict, Error> {
    if let Some(reason) = lost {
        return Ok(Verdict::Lost(reason));
    }
    let content_type = FORMATS.iter().find(|(name, _)| *name == format).map_or("", |(_, content_type)| content_type);
    let body = body.ok_or("a body is missing")?;
    Ok((entry.checks()?.read)(codecs, content_type, &body, entry.expected()).into())
}

/// The peers in Rust, both ways.
fn peers_in_rust(codecs: &Codecs<Set>, entries: &[Entry], ours: &[Written], report: &mut Report) -> Result<(), Error> {
    for entry in entries {
        for written in (entry.checks()?.by_peers)(entry.expected()) {
            let peer = written.peer;
            let verdict = verdict(codecs, entry, peer.format, Some(written.body), written.lost)?;
            report.encoders.add("Rust", peer.name, &peers::version(peer.package), peer.format, &entry.id, verdict);
        }
    }
    for line in ours {
        let entry = entry(entries, &line.value)?;
        let body = STANDARD.decode(line.body.as_deref().unwrap_or_default())?;
        let verdict = self::verdict(codecs, entry, &line.format, Some(body.clone()), None)?;
        report.decoders.add("Rust", "consign", "", &line.format, &entry.id, verdict);
        for peer in PEERS.iter().filter(|peer| peer.reads && peer.format == line.format) {
            let outcome = (entry.checks()?.read_by)(peer, &body, entry.expected());
            let loses = |reason: &String| {
                let own = (entry.checks().ok()?.by_peers)(entry.expected());
                let lost = own.into_iter().find(|written| written.peer.name == peer.name)?.lost;
                lost.map(|lost| Verdict::Lost(format!("{reason}; of its own body too: {lost}")))
            };
            let verdict = match &outcome {
                Outcome::Refused(reason) | Outcome::Differs(reason) => loses(reason),
                Outcome::Same => None,
            };
            let verdict = verdict.unwrap_or_else(|| outcome.into());
            report.decoders.add("Rust", peer.name, &peers::version(peer.package), peer.format, &entry.id, verdict);
        }
    }
    Ok(())
}
