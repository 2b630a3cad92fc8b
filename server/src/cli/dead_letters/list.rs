//! Commands that change nothing.

use std::{collections::BTreeMap, path::PathBuf};

use clap::Args;
use consign::{
    broker::json_lines::Line,
    dead_letters::{DeadLetterFilter, DeadLetters, EntityDeadLetters, Explained, ListLimit},
    message::SequenceNumber,
    transport::{Capability, DynTransport, ErrorKind, Escaped, Transport},
};
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    super::{
        body::{self, Wanted},
        failure::{Exit, Failure},
        messages::{
            Lines, Listed,
            show::{BodyOptions, print_body},
        },
        output::{Output, Printable},
    },
    Source,
};

/// How many dead letters are listed at once.
const PAGE: usize = 100;
/// The most groups that are told apart.
const MAX_GROUPS: usize = 1_000;

#[derive(Debug, Args)]
pub(crate) struct List {
    #[command(flatten)]
    pub(super) source: Source,
    /// The sequence number of the first one
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    from: u64,
    /// The most dead letters
    #[arg(long, short = 'n', value_name = "COUNT", default_value_t = 100)]
    max: usize,
}

#[derive(Debug, Args)]
pub(crate) struct Group {
    #[command(flatten)]
    pub(super) source: Source,
}

#[derive(Debug, Args)]
pub(crate) struct Show {
    #[command(flatten)]
    pub(super) source: Source,
    #[command(flatten)]
    body: BodyOptions,
}

#[derive(Debug, Args)]
pub(crate) struct Export {
    #[command(flatten)]
    pub(super) source: Source,
    /// The new file; without it, the standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// A dead letter for programs: why it is one, and the message.
#[derive(Serialize)]
pub(super) struct Object<'e> {
    sequence_number: u64,
    reason: Option<&'e str>,
    description: Option<&'e str>,
    source: Option<&'e str>,
    first_message_id: Option<&'e str>,
    resubmit_count: u32,
    failed_deliveries: Option<u32>,
    attempts: Vec<Value>,
    message: Line,
}

impl<'e> Object<'e> {
    pub(super) fn new(source: &Source, dead: &'e Explained) -> Self {
        let attempts = dead.attempts().iter().map(|attempt| {
            json!({
                "codec": attempt.codec(),
                "chosen": attempt.chosen().code(),
                "error": attempt.code(),
                "position": attempt.position().map(|position| position.to_string()),
                "path": attempt.path(),
                "expected": attempt.expected(),
                "found": attempt.found().map(|found| found.to_string()),
            })
        });
        Self {
            sequence_number: dead.sequence_number().get(),
            reason: dead.reason(),
            description: dead.description(),
            source: dead.source(),
            first_message_id: dead.original_message_id(),
            resubmit_count: dead.resubmit_count(),
            failed_deliveries: dead.failed_deliveries(),
            attempts: attempts.collect(),
            message: Line { entity: Some(source.path().to_string()), message: dead.message().clone() },
        }
    }
}

impl List {
    pub(super) async fn run(&self, transport: &DynTransport, out: &mut Output) -> Result<(), Failure> {
        let dead = self.source.dead_letters(transport);
        let filter = self.source.filter.filter();
        let (letters, listed) = page(&dead, &filter, SequenceNumber::new(self.from), self.max).await?;
        for letter in letters {
            out.either(&letter, &Object::new(&self.source, &letter))?;
        }
        listed.check()
    }
}

/// Lists dead letters, as many as the transport can.
async fn page(
    dead: &DeadLetters<EntityDeadLetters>,
    filter: &DeadLetterFilter,
    from: SequenceNumber,
    max: usize,
) -> Result<(Vec<Explained>, Listed), Failure> {
    match dead.list(filter, from, max).await {
        Ok(found) => Ok((found, Listed::All)),
        Err(error) => match ListLimit::of(&error) {
            Some(limit) => Ok((limit.found().to_vec(), Listed::Cut)),
            None => Err(error.into()),
        },
    }
}

/// Calls `each` on all dead letters that pass a filter.
pub(super) async fn all(
    transport: &DynTransport,
    source: &Source,
    filter: &DeadLetterFilter,
    each: &mut (dyn FnMut(Explained) -> Result<(), Failure> + Send),
) -> Result<Listed, Failure> {
    let dead = source.dead_letters(transport);
    // Without a peek, each listing is a receive from the front: one for all of them.
    let most = if can_peek(transport) { PAGE } else { usize::MAX };
    let mut from = SequenceNumber::new(0);
    loop {
        let (letters, listed) = page(&dead, filter, from, most).await?;
        let is_last = letters.len() < most;
        let next = letters.iter().map(Explained::sequence_number).max().map(SequenceNumber::next);
        for letter in letters {
            each(letter)?;
        }
        match next {
            Some(next) if !is_last && next > from => from = next,
            _ => return Ok(listed),
        }
    }
}

#[derive(Default)]
struct Count {
    letters: u64,
    first: u64,
    last: u64,
}

impl Group {
    pub(super) async fn run(&self, transport: &DynTransport, out: &mut Output) -> Result<(), Failure> {
        let mut groups: BTreeMap<(String, String), Count> = BTreeMap::new();
        let filter = self.source.filter.filter();
        let mut others = 0_u64;
        let listed = all(transport, &self.source, &filter, &mut |letter| {
            let key = (letter.reason().unwrap_or_default().to_owned(), first_error(&letter));
            if groups.len() >= MAX_GROUPS && !groups.contains_key(&key) {
                others += 1;
                return Ok(());
            }
            let group = groups.entry(key).or_default();
            let number = letter.sequence_number().get();
            if group.letters == 0 {
                group.first = number;
            }
            group.letters += 1;
            group.last = number;
            Ok(())
        })
        .await?;
        let mut groups: Vec<_> = groups.into_iter().collect();
        groups.sort_by_key(|(_, group)| std::cmp::Reverse(group.letters));
        for ((reason, error), Count { letters: count, first, last }) in &groups {
            let shown = if reason.is_empty() { "(no reason)" } else { reason };
            let error_shown = if error.is_empty() { String::new() } else { format!(": {}", Escaped(error)) };
            let text = format!("{count} × {}{error_shown} (#{first} to #{last})", Escaped(shown));
            out.either(
                text,
                &json!({ "count": count, "reason": reason, "error": error, "first": first, "last": last }),
            )?;
        }
        if others > 0 {
            out.either(format_args!("{others} in further groups"), &json!({ "count": others, "reason": null }))?;
        }
        listed.check()
    }
}

/// The first failed attempt to decode, or the first line of the description.
fn first_error(letter: &Explained) -> String {
    if let Some(attempt) = letter.attempts().first() {
        let path = attempt.path().map(|path| format!(" in {path}")).unwrap_or_default();
        return format!("{} {}{path}", attempt.codec(), attempt.code());
    }
    let line = letter.description().unwrap_or_default().lines().next().unwrap_or_default();
    line.chars().take(200).collect()
}

impl Show {
    pub(super) async fn run(&self, transport: &DynTransport, out: &mut Output) -> Result<(), Failure> {
        let filter = self.source.filter.filter();
        let mut count = 0;
        let listed = all(transport, &self.source, &filter, &mut |letter| {
            count += 1;
            self.print(&letter, out)
        })
        .await
        .map_err(|failure| failure.after(count))?;
        if count == 0 && listed == Listed::All {
            let text = "no dead letter passes the filter";
            return Err(Failure::new(Exit::NotFound, ErrorKind::MessageNotFound.code(), text));
        }
        listed.check()
    }

    fn print(&self, letter: &Explained, out: &mut Output) -> Result<(), Failure> {
        let message = letter.message();
        if out.json {
            let mut object = serde_json::to_value(Object::new(&self.source, letter))?;
            if !self.body.no_body {
                object["body"] = match body::view(message.body(), message.content_type(), &self.body.codec) {
                    Ok(view) => serde_json::to_value(view)?,
                    Err(error) => {
                        let hex = body::view(message.body(), None, &Wanted::Hex).ok();
                        json!({ "error": error.to_string(), "otherwise": hex })
                    }
                };
            }
            return out.object(&object);
        }
        out.line(letter)?;
        for (name, value) in message.application_properties().iter() {
            let value = consign_core::wire::text::write(value);
            out.line(format_args!("  {}: {}", Printable(name), Escaped(&value)))?;
        }
        if self.body.no_body { Ok(()) } else { print_body(out, message, &self.body.codec) }
    }
}

impl Export {
    pub(super) async fn run(&self, transport: &DynTransport, out: &mut Output) -> Result<(), Failure> {
        let mut lines = Lines::open(self.output.as_ref())?;
        let entity = self.source.path().to_string();
        let filter = self.source.filter.filter();
        let mut count = 0;
        let listed = all(transport, &self.source, &filter, &mut |letter| {
            count += 1;
            lines.write(&Line { entity: Some(entity.clone()), message: letter.into_message() }, out)
        })
        .await
        .map_err(|failure| failure.after(count))?;
        lines.finish(count, out)?;
        listed.check()
    }
}

/// Whether dead letters can be listed without receiving them.
fn can_peek(transport: &DynTransport) -> bool {
    let capabilities = transport.capabilities();
    capabilities.supports(Capability::Peek) && capabilities.supports(Capability::SequenceNumbers)
}
