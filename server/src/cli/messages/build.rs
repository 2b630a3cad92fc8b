use std::time::Duration;

use clap::Args;
use consign::{
    Message,
    message::{InvalidArgument, MessageBody, Properties},
};

use crate::cli::values::{Property, duration, property};

/// The properties of the messages that are sent.
#[derive(Debug, Args)]
#[command(next_help_heading = "Properties")]
pub(crate) struct PropertyOptions {
    /// The ContentType
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,
    /// The MessageId; with several bodies or files, and for each line of the standard input, -1, -2 and so on are
    /// appended
    #[arg(long, value_name = "ID")]
    message_id: Option<String>,
    /// The subject
    #[arg(long)]
    subject: Option<String>,
    /// The session
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// The CorrelationId
    #[arg(long, value_name = "ID")]
    correlation_id: Option<String>,
    /// The entity for replies
    #[arg(long, value_name = "ENTITY")]
    reply_to: Option<String>,
    /// The session of replies
    #[arg(long, value_name = "ID")]
    reply_to_session: Option<String>,
    /// The property `to`
    #[arg(long)]
    to: Option<String>,
    /// The partition key
    #[arg(long, value_name = "KEY")]
    partition_key: Option<String>,
    /// How long the message waits at most
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    time_to_live: Option<Duration>,
    /// An application property; without a type it is text. Types: string, bool, u8 to u64, i8 to i64, f32, f64, char,
    /// uuid, uri, instant, bytes (hexadecimal), null
    #[arg(long, short, value_name = "NAME[:TYPE]=VALUE", value_parser = property)]
    property: Vec<Property>,
}

impl PropertyOptions {
    /// A message with this body. `number` is appended to the MessageId, with several messages.
    pub(super) fn build(&self, body: impl Into<MessageBody>, number: Option<u64>) -> Result<Message, InvalidArgument> {
        let mut properties = Properties::new();
        if let Some(text) = &self.content_type {
            properties.set_content_type(text.clone());
        }
        if let Some(id) = &self.message_id {
            let id = number.map_or_else(|| id.clone(), |number| format!("{id}-{number}"));
            properties.set_message_id(id)?;
        }
        if let Some(text) = &self.subject {
            properties.set_subject(text.clone());
        }
        if let Some(text) = &self.session {
            properties.set_session_id(text.clone())?;
        }
        if let Some(text) = &self.correlation_id {
            properties.set_correlation_id(text.clone());
        }
        if let Some(text) = &self.reply_to {
            properties.set_reply_to(text.clone());
        }
        if let Some(text) = &self.reply_to_session {
            properties.set_reply_to_session_id(text.clone())?;
        }
        if let Some(text) = &self.to {
            properties.set_to(text.clone());
        }
        if let Some(text) = &self.partition_key {
            properties.set_partition_key(text.clone())?;
        }
        if let Some(time_to_live) = self.time_to_live {
            properties.set_time_to_live(time_to_live)?;
        }
        for Property { name, value } in &self.property {
            properties.application_properties_mut().insert(name.as_str(), value.clone());
        }
        let message = Message::from_parts(properties, body.into());
        message.check()?;
        Ok(message)
    }
}
