//! A message for people, and its line of JSON.

use std::fmt;

use clap::Args;
use consign::{
    Message,
    broker::json_lines::Line,
    message::{EntityPath, MessageState, PropertyValue},
    settlement::DeadLetter,
    transport::Escaped,
};
use consign_core::wire::text;
use serde_json::Value;

use crate::cli::{
    body::{self, View, Wanted},
    failure::Failure,
    output::{Output, Printable},
};

/// How bodies are printed.
#[derive(Clone, Debug, Args)]
pub(crate) struct BodyOptions {
    /// How to print bodies: auto, hex, or the name of a codec
    #[arg(long, value_name = "CODEC", default_value = "auto")]
    pub(crate) codec: Wanted,
    /// Print no bodies
    #[arg(long)]
    pub(crate) no_body: bool,
}

/// Prints a message: several lines for people, or one line in the form of `consign export`.
pub(crate) fn print(
    out: &mut Output,
    entity: &EntityPath,
    message: &Message,
    options: &BodyOptions,
) -> Result<(), Failure> {
    if out.json {
        return out.object(&Line { entity: Some(entity.to_string()), message: message.clone() });
    }
    out.line(Shown(message))?;
    if options.no_body { Ok(()) } else { print_body(out, message, &options.codec) }
}

/// Prints the body of a message for people. If the requested codec cannot read it, the reason and the digits are printed.
pub(crate) fn print_body(out: &mut Output, message: &Message, wanted: &Wanted) -> Result<(), Failure> {
    let text = match body::view(message.body(), message.content_type(), wanted) {
        // All of it: the command may remove the message after this.
        Ok(view @ View::NotBytes(_)) => format!("{view}:\n{}", Printable(&json_of(message)?.to_string())),
        Ok(view) => view.to_string(),
        Err(error) => {
            let hex = body::view(message.body(), None, &Wanted::Hex).map(|view| view.to_string()).unwrap_or_default();
            format!("the codec does not read the body: {}\n{hex}", Escaped(&error.to_string()))
        }
    };
    for line in text.lines() {
        out.line(format_args!("  {line}"))?;
    }
    Ok(())
}

/// The body of a message in the form of `consign export`, which has each AMQP value.
pub(crate) fn json_of(message: &Message) -> Result<Value, Failure> {
    let mut line = serde_json::to_value(Line { entity: None, message: message.clone() })?;
    Ok(line["body"].take())
}

/// The properties of a message, without its body.
struct Shown<'m>(&'m Message);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let message = self.0;
        match message.received() {
            Some(received) => {
                write!(f, "#{} {} B", received.sequence_number, message.body().size())?;
                write!(f, ", enqueued {}, delivery count {}", received.enqueued_time, received.delivery_count)?;
                match received.state {
                    MessageState::Active => {}
                    MessageState::Deferred => f.write_str(", deferred")?,
                    MessageState::Scheduled => f.write_str(", scheduled")?,
                }
            }
            None => write!(f, "{} B", message.body().size())?,
        }
        for (name, text) in [
            ("id", message.message_id()),
            ("subject", message.subject()),
            ("content-type", message.content_type()),
            ("session", message.session_id()),
            ("correlation id", message.correlation_id()),
            ("reply to", message.reply_to()),
            ("to", message.to()),
        ] {
            if let Some(text) = text {
                write!(f, ", {name} {}", Escaped(text))?;
            }
        }
        for (name, value) in message.application_properties().iter() {
            if name == DeadLetter::TRAIL {
                continue;
            }
            let value = match value {
                PropertyValue::String(text) => text.to_string(),
                other => text::write(other),
            };
            write!(f, "\n  {}: {}", Escaped(name), Escaped(&value))?;
        }
        Ok(())
    }
}
