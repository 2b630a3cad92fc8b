use std::{
    borrow::Cow,
    io::{BufRead, Read as _},
    time::Duration,
};

use consign_core::{
    message::{
        InvalidArgument, Message, MessageBody, MessageState, PassThrough, Properties, Received, SequenceNumber, Stored,
    },
    time::Timestamp,
};
use serde::{Deserialize, Deserializer};

use super::{
    Line, LineError,
    error::Problem,
    value::{Application, Base64, Object, Read},
};

/// Reads a message from each line that is not blank. A line of more than `limit` bytes is not kept in memory. An
/// error ends only its line, except an error of the input, which is the last item.
pub fn read_messages<R: BufRead>(input: R, limit: usize) -> impl Iterator<Item = Result<Line, LineError>> {
    Lines::new(input, limit)
}

struct Lines<R> {
    /// `None` once there is nothing left to read.
    input: Option<R>,
    limit: usize,
    line: u64,
    bytes: Vec<u8>,
}

impl<R> Lines<R> {
    fn new(input: R, limit: usize) -> Self {
        Self { input: Some(input), limit, line: 0, bytes: Vec::new() }
    }
}

impl<R: BufRead> Iterator for Lines<R> {
    type Item = Result<Line, LineError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let input = self.input.as_mut()?;
            self.line += 1;
            match read_line(input, self.limit, &mut self.bytes) {
                Ok(false) => self.input = None,
                Ok(true) if self.bytes.trim_ascii().is_empty() => {}
                Ok(true) => return Some(parse(&self.bytes).map_err(|problem| LineError::new(self.line, problem))),
                Err(problem) => {
                    if matches!(problem, Problem::Io(_)) {
                        self.input = None;
                    }
                    return Some(Err(LineError::new(self.line, problem)));
                }
            }
        }
    }
}

/// Reads one line with its end. `false` if there is none.
fn read_line(input: &mut impl BufRead, limit: usize, line: &mut Vec<u8>) -> Result<bool, Problem> {
    line.clear();
    // The line ending does not count.
    let most = (limit as u64).saturating_add(2);
    input.take(most).read_until(b'\n', line).map_err(Problem::Io)?;
    let length = line.strip_suffix(b"\n").map_or(line.len(), |line| line.strip_suffix(b"\r").unwrap_or(line).len());
    if length <= limit {
        return Ok(!line.is_empty());
    }
    if line.last() != Some(&b'\n') {
        input.skip_until(b'\n').map_err(Problem::Io)?;
    }
    Err(Problem::TooLong { limit })
}

fn parse(line: &[u8]) -> Result<Line, Problem> {
    let Object(written): Object<Written> = serde_json::from_slice(line.trim_ascii_end())?;
    written.into_line().map_err(Problem::Invalid)
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Written {
    entity: Option<String>,
    received: Option<Object<Said>>,
    content_type: Option<String>,
    correlation_id: Option<String>,
    message_id: Option<String>,
    message_id_stamped: bool,
    subject: Option<String>,
    reply_to: Option<String>,
    session_id: Option<String>,
    reply_to_session_id: Option<String>,
    partition_key: Option<String>,
    transaction_partition_key: Option<String>,
    to: Option<String>,
    dead_letter_source: Option<String>,
    time_to_live: Option<u64>,
    #[serde(deserialize_with = "instant")]
    scheduled_enqueue_time: Option<Timestamp>,
    properties: Option<Application>,
    pass_through: Option<Object<Rest>>,
    body: Option<Content>,
}

impl Written {
    fn into_line(self) -> Result<Line, InvalidArgument> {
        let mut properties = Properties::new();
        if let Some(text) = self.content_type {
            properties.set_content_type(text);
        }
        if let Some(text) = self.correlation_id {
            properties.set_correlation_id(text);
        }
        if let Some(text) = self.message_id {
            if self.message_id_stamped {
                properties.stamp_message_id(text)?;
            } else {
                properties.set_message_id(text)?;
            }
        }
        if let Some(text) = self.subject {
            properties.set_subject(text);
        }
        if let Some(text) = self.reply_to {
            properties.set_reply_to(text);
        }
        if let Some(text) = self.session_id {
            properties.set_session_id(text)?;
        }
        if let Some(text) = self.reply_to_session_id {
            properties.set_reply_to_session_id(text)?;
        }
        if let Some(text) = self.partition_key {
            properties.set_partition_key(text)?;
        }
        if let Some(text) = self.transaction_partition_key {
            properties.set_transaction_partition_key(text)?;
        }
        if let Some(text) = self.to {
            properties.set_to(text);
        }
        if let Some(millis) = self.time_to_live {
            properties.set_time_to_live(Duration::from_millis(millis))?;
        }
        if let Some(instant) = self.scheduled_enqueue_time {
            properties.set_scheduled_enqueue_time(instant);
        }
        if let Some(Application(application)) = self.properties {
            *properties.application_properties_mut() = application;
        }
        if let Some(Object(rest)) = self.pass_through {
            *properties.pass_through_mut() = rest.into();
        }
        let body = self.body.map_or_else(MessageBody::empty, MessageBody::from);
        let mut message = Stored::new(Message::from_parts(properties, body));
        if let Some(source) = self.dead_letter_source {
            message.set_dead_letter_source(&source);
        }
        let message = message.into_message();
        let message = match self.received {
            Some(Object(said)) => message.with_received(said.into()),
            None => message,
        };
        Ok(Line { entity: self.entity, message })
    }
}

fn instant<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    Ok(Option::deserialize(deserializer)?.map(Timestamp::from_millis))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Said {
    sequence_number: u64,
    enqueued_time: i64,
    delivery_count: u32,
    #[serde(default)]
    enqueued_sequence_number: u64,
    #[serde(default, deserialize_with = "instant")]
    expires_at: Option<Timestamp>,
    #[serde(default, deserialize_with = "instant")]
    locked_until: Option<Timestamp>,
    #[serde(default)]
    state: State,
    #[serde(default)]
    dead_lettered: bool,
    partition_id: Option<i16>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum State {
    #[default]
    Active,
    Deferred,
    Scheduled,
}

impl From<Said> for Received {
    fn from(said: Said) -> Self {
        let (number, enqueued) =
            (SequenceNumber::new(said.sequence_number), Timestamp::from_millis(said.enqueued_time));
        let mut received = Self::new(number, enqueued, said.delivery_count);
        received.enqueued_sequence_number = SequenceNumber::new(said.enqueued_sequence_number);
        received.expires_at = said.expires_at.unwrap_or(Timestamp::MAX);
        received.locked_until = said.locked_until;
        received.state = match said.state {
            State::Active => MessageState::Active,
            State::Deferred => MessageState::Deferred,
            State::Scheduled => MessageState::Scheduled,
        };
        received.dead_lettered = said.dead_lettered;
        received.partition_id = said.partition_id;
        received
    }
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Rest {
    user_id: Option<Base64<Vec<u8>>>,
    content_encoding: Option<String>,
    group_sequence: Option<u32>,
    #[serde(deserialize_with = "instant")]
    creation_time: Option<Timestamp>,
    durable: Option<bool>,
    priority: Option<u8>,
    first_acquirer: Option<bool>,
    force_persistence: bool,
    annotations: Vec<(String, Read)>,
    footer: Vec<(String, Read)>,
}

impl From<Rest> for PassThrough {
    fn from(rest: Rest) -> Self {
        let pairs = |pairs: Vec<(String, Read)>| {
            pairs.into_iter().map(|(key, value)| (Cow::Owned(key), value.into_inner())).collect()
        };
        let mut passed = Self::default();
        passed.user_id = rest.user_id.map(Base64::bytes);
        passed.content_encoding = rest.content_encoding.map(Cow::Owned);
        passed.group_sequence = rest.group_sequence;
        passed.creation_time = rest.creation_time;
        passed.durable = rest.durable;
        passed.priority = rest.priority;
        passed.first_acquirer = rest.first_acquirer;
        passed.force_persistence = rest.force_persistence;
        passed.annotations = pairs(rest.annotations);
        passed.footer = pairs(rest.footer);
        passed
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Content {
    Text(String),
    Bytes(Base64<Vec<u8>>),
    Sections(Vec<Base64<Vec<u8>>>),
    Value(Read),
    Sequence(Vec<Vec<Read>>),
}

impl From<Content> for MessageBody {
    fn from(content: Content) -> Self {
        match content {
            Content::Text(text) => text.into(),
            Content::Bytes(bytes) => bytes.bytes().into(),
            Content::Sections(sections) => Self::sections(sections.into_iter().map(Base64::bytes).collect()),
            Content::Value(value) => value.into_inner().into(),
            Content::Sequence(sections) => {
                let section = |values: Vec<Read>| values.into_iter().map(Read::into_inner).collect();
                Self::Sequence(sections.into_iter().map(section).collect())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, BufReader};

    use super::*;

    #[test]
    fn a_line_that_is_too_long_is_not_kept() {
        let endless = io::repeat(b'x').take(64 << 20);
        let mut lines = Lines::new(BufReader::new(endless.chain(&b"\n{}"[..])), 1_000);
        assert_eq!(lines.next().unwrap().unwrap_err().to_string(), "line 1: longer than 1000 bytes");
        assert!(lines.next().unwrap().is_ok() && lines.next().is_none());
        assert!(lines.bytes.capacity() < 10_000, "{}", lines.bytes.capacity());
    }
}
