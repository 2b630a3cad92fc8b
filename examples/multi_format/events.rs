//! The events that are sent, as they were recorded.

use std::{borrow::Cow, fs::File, io::Read, path::Path};

use consign::codecs::{CodecSet, Codecs, Decode};
use serde::Deserialize;

use crate::{
    failure::Failure,
    payloads::{Anything, Issues, PullRequest, Push},
};

const EXAMPLES: &[u8] = include_bytes!("../data/webhooks.jsonl");
const MAX_BYTES: u64 = 64 << 20;

/// One event, with its payload as the generic and, where there is one, as the typed handler reads it.
#[derive(Debug)]
pub struct Event {
    /// Its line in the input, from 1.
    pub line: usize,
    /// The name of its kind: the subject of its messages.
    pub name: Cow<'static, str>,
    /// What happened, where the kind has several.
    pub action: Option<Cow<'static, str>>,
    pub payload: Anything,
    pub typed: Option<Typed>,
}

#[derive(Debug)]
pub enum Typed {
    Push(Push<'static>),
    Issues(Issues),
    PullRequest(Box<PullRequest>),
}

#[derive(Deserialize)]
struct Line<'a, P> {
    #[serde(borrow)]
    event: Cow<'a, str>,
    #[serde(borrow)]
    action: Option<Cow<'a, str>>,
    payload: P,
}

/// Reads a file of the user's, or the examples.
pub fn load<C: CodecSet>(file: Option<&Path>, codecs: &Codecs<C>) -> Result<Vec<Event>, Failure> {
    match file {
        None => parse(EXAMPLES, codecs),
        // The events stay until the process ends, and borrow from their text.
        Some(path) => parse(Vec::leak(read(path)?), codecs),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let mut text = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut text));
    match read {
        Err(source) => Err(Failure::File { path: path.to_owned(), source }),
        Ok(_) if text.len() as u64 > MAX_BYTES => Err(Failure::FileTooLarge { limit: MAX_BYTES }),
        Ok(_) => Ok(text),
    }
}

/// Reads the lines; blank ones are skipped.
pub fn parse<C: CodecSet>(text: &'static [u8], codecs: &Codecs<C>) -> Result<Vec<Event>, Failure> {
    let mut events = Vec::new();
    for (at, line) in text.split(|&byte| byte == b'\n').enumerate() {
        if !line.trim_ascii().is_empty() {
            events.push(parse_line(at + 1, line, codecs)?);
        }
    }
    if events.is_empty() { Err(Failure::NoEvents) } else { Ok(events) }
}

fn parse_line<C: CodecSet>(line: usize, text: &'static [u8], codecs: &Codecs<C>) -> Result<Event, Failure> {
    let Line { event, action, payload } = read_json::<Line<Anything>>(line, text)?;
    let typed = match &*event {
        "push" => Some(Typed::Push(read_json::<Line<Push>>(line, text)?.payload)),
        "issues" => Some(Typed::Issues(read_json::<Line<Issues>>(line, text)?.payload)),
        "pull_request" => {
            let payload = read_json::<Line<PullRequest>>(line, text)?.payload;
            Some(Typed::PullRequest(Box::new(payload)))
        }
        _ => None,
    };
    for codec in ["json", "msgpack", "cbor"] {
        let written = codecs.encode_with(&payload, codec).map_err(|error| at(line, error))?;
        codecs.decode::<Anything>(Some(written.content_type), &written.body).map_err(|error| at(line, error))?;
    }
    Ok(Event { line, name: event, action, payload, typed })
}

/// The codec keeps to limits, and its errors hold nothing of the text.
fn read_json<T: Decode<'static>>(line: usize, text: &'static [u8]) -> Result<T, Failure> {
    Codecs::json().decode(Some("application/json"), text).map_err(|error| at(line, error))
}

fn at(line: usize, source: impl Into<tower::BoxError>) -> Failure {
    Failure::Line { line, source: source.into() }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::handlers;

    #[test]
    fn the_examples_are_events_of_many_kinds() {
        let events = load(None, &handlers::codecs().unwrap()).unwrap();
        let kinds: BTreeSet<&str> = events.iter().map(|event| &*event.name).collect();
        assert_eq!((events.len(), kinds.len()), (42, 29));
        for kind in ["push", "issues", "pull_request"] {
            assert!(events.iter().filter(|event| event.name == kind && event.typed.is_some()).count() > 3, "{kind}");
        }
    }

    #[test]
    fn a_wrong_line_is_named_and_not_quoted() {
        let lines = [
            "canary",
            r#"{"event":"star","action":null}"#,
            r#"{"event":"star","payload":"canary"}"#,
            r#"{"event":["canary"],"payload":{}}"#,
            r#"{"event":"push","payload":{"ref":"canary"}}"#,
            r#"{"event":"issues","payload":{"action":"canary","issue":"canary"}}"#,
        ];
        for line in lines {
            let text = format!("{{\"event\":\"star\",\"payload\":{{}}}}\n\n{line}\n");
            let failure = parse(Vec::leak(text.into_bytes()), &handlers::codecs().unwrap()).unwrap_err();
            assert!(matches!(failure, Failure::Line { line: 3, .. }), "{line}: {failure}");
            assert!(!format!("{failure} {failure:?}").contains("canary"), "{failure:?}");
        }
    }

    #[test]
    fn an_input_without_an_event_is_refused() {
        let failure = parse(b"\n \n", &handlers::codecs().unwrap()).unwrap_err();
        assert!(matches!(failure, Failure::NoEvents));
    }
}
