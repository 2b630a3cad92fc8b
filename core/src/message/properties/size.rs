//! The size of properties, and its limit.

use super::{Properties, Rare};
use crate::message::{
    Field, InvalidArgument, Problem, limits,
    text::{Id, Text},
};

impl Properties {
    /// Bytes that all properties count for against a size limit.
    #[must_use]
    pub fn size(&self) -> usize {
        let size_of_id = |id: Option<&Id>| id.map_or(0, Id::len);
        size_of_text(self.content_type.as_ref())
            + size_of_id(self.correlation_id.as_ref())
            + size_of_id(self.message_id.as_ref())
            + size_of_text(self.subject.as_ref())
            + size_of_text(self.reply_to.as_ref())
            + size_of_text(self.session_id.as_ref())
            + if self.time_to_live.is_some() { SIZE_OF_TIME } else { 0 }
            + if self.application.is_empty() { 0 } else { self.application.size() }
            + self.rare.as_ref().map_or(0, |rare| rare.size())
    }

    /// Checks what the setters cannot: each application property at most 32,767 bytes with its key, all properties
    /// together at most 65,534 bytes, at most 1,024 of them.
    #[inline]
    pub fn check(&self) -> Result<(), InvalidArgument> {
        if self.is_small() {
            return Ok(());
        }
        if !self.application.is_empty() {
            self.application.check()?;
        }
        let limit = limits::ALL_PROPERTIES_BYTES;
        if self.size() > limit {
            return Err(InvalidArgument::new(Field::Properties, Problem::TooLong { limit }));
        }
        Ok(())
    }
}

impl Properties {
    /// Whether nothing is to be counted: ids are short, and of the texts that may be long there are at most two, of half the
    /// limit or less together.
    #[inline]
    fn is_small(&self) -> bool {
        let is_short = || {
            let correlation_id = self.correlation_id.as_ref().map_or(0, Id::len);
            size_of_text(self.content_type.as_ref()) + correlation_id <= limits::PROPERTY_BYTES
        };
        self.subject.is_none()
            && self.reply_to.is_none()
            && self.rare.is_none()
            && self.application.is_empty()
            && is_short()
    }
}

impl Rare {
    fn size(&self) -> usize {
        size_of_text(self.reply_to_session_id.as_ref())
            + size_of_text(self.partition_key.as_ref())
            + size_of_text(self.transaction_partition_key.as_ref())
            + size_of_text(self.to.as_ref())
            + if self.scheduled_enqueue_time.is_some() { SIZE_OF_TIME } else { 0 }
            + self.pass_through.as_ref().map_or(0, |rest| rest.size())
    }
}

/// What an instant or a duration counts for.
const SIZE_OF_TIME: usize = 8;

#[inline]
fn size_of_text(text: Option<&Text>) -> usize {
    text.map_or(0, Text::len)
}
