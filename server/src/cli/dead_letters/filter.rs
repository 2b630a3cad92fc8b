use std::time::Duration;

use clap::Args;
use consign::{
    dead_letters::DeadLetterFilter,
    message::{Properties, SequenceNumber},
    time::Timestamp,
    transport::{Capability, DynTransport, Transport},
};

use super::super::{
    failure::Failure,
    values::{duration, instant, pair},
};

/// Which dead letters. Those that pass all the options; without an option, all.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Filter")]
pub(crate) struct FilterOptions {
    /// This sequence number; several are any of them
    #[arg(long, value_name = "NUMBER")]
    number: Vec<u64>,
    /// This MessageId, or this first MessageId
    #[arg(long, value_name = "ID")]
    message_id: Option<String>,
    /// This reason
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// A text in the description, in any case of letters
    #[arg(long, value_name = "TEXT")]
    error: Option<String>,
    /// This subject
    #[arg(long, value_name = "TEXT")]
    subject: Option<String>,
    /// This media type, with any parameters; empty for none
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,
    /// A body that this codec has tried to decode
    #[arg(long, value_name = "CODEC")]
    tried: Option<String>,
    /// A text property of this value
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    having: Vec<(String, String)>,
    /// Enqueued longer ago than this
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    older_than: Option<Duration>,
    /// Enqueued before this time
    #[arg(long, value_name = "TIMESTAMP", value_parser = instant)]
    before: Option<Timestamp>,
    /// Enqueued at this time or later
    #[arg(long, value_name = "TIMESTAMP", value_parser = instant)]
    since: Option<Timestamp>,
}

impl FilterOptions {
    pub(super) fn filter(&self) -> DeadLetterFilter {
        let mut filter = DeadLetterFilter::all();
        if !self.number.is_empty() {
            let numbers: Vec<_> = self.number.iter().copied().map(SequenceNumber::new).collect();
            filter = filter.matching(move |dead| numbers.contains(&dead.sequence_number()));
        }
        if let Some(id) = self.message_id.clone() {
            filter = filter.matching(move |dead| {
                let properties: &Properties = dead.message().properties();
                properties.message_id() == Some(&id) || dead.original_message_id() == Some(&id)
            });
        }
        if let Some(reason) = &self.reason {
            filter = filter.reason(reason.clone());
        }
        if let Some(error) = &self.error {
            let error = error.to_lowercase();
            filter = filter
                .matching(move |dead| dead.description().is_some_and(|text| text.to_lowercase().contains(&error)));
        }
        if let Some(subject) = &self.subject {
            filter = filter.subject(subject.clone());
        }
        if let Some(content_type) = &self.content_type {
            filter = filter.content_type(content_type);
        }
        if let Some(codec) = &self.tried {
            filter = filter.codec(codec.clone());
        }
        for (name, value) in self.having.clone() {
            filter = filter.matching(move |dead| {
                let property = dead.message().application_properties().get(&name);
                property.and_then(|property| property.as_str()) == Some(&value)
            });
        }
        if let Some(age) = self.older_than {
            filter = filter.older_than(age);
        }
        if let Some(before) = self.before {
            filter = filter.enqueued_before(before);
        }
        if let Some(since) = self.since {
            filter = filter.enqueued_from(since);
        }
        filter
    }

    /// A run compares numbers of the broker; without them a listing counts places, which the next receive does not keep.
    pub(super) fn check_for_a_run(&self, transport: &DynTransport) -> Result<(), Failure> {
        if self.number.is_empty() || transport.capabilities().supports(Capability::SequenceNumbers) {
            return Ok(());
        }
        Err(Failure::not_supported("the transport has no sequence numbers: choose dead letters by --message-id"))
    }
}
