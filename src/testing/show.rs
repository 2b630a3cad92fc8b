use std::fmt;

use crate::{Message, settlement::DeadLetter};

/// What there is, one a line, for the text of an assertion that fails.
pub(super) struct Lines<'t, T>(pub(super) &'t [T]);

impl<T: fmt::Display> fmt::Display for Lines<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MOST: usize = 20;
        if self.0.is_empty() {
            return f.write_str(" none");
        }
        for line in self.0.iter().take(MOST) {
            write!(f, "\n  {line}")?;
        }
        match self.0.len().checked_sub(MOST) {
            Some(more @ 1..) => write!(f, "\n  and {more} more"),
            _ => Ok(()),
        }
    }
}

/// Messages, one a line. Bodies are not shown.
pub(super) struct Listed<'m>(pub(super) &'m [Message]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: Vec<_> = self.0.iter().map(Shown).collect();
        Lines(&shown).fmt(f)
    }
}

/// One message, without its body.
pub(super) struct Shown<'m>(pub(super) &'m Message);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let message = self.0;
        if let Some(received) = message.received() {
            write!(f, "#{} ", received.sequence_number)?;
        }
        write!(f, "{} B", message.body().size())?;
        let texts = [
            ("id", message.message_id()),
            ("subject", message.subject()),
            ("content-type", message.content_type()),
            ("correlation", message.correlation_id()),
            ("session", message.session_id()),
            ("dead-lettered", message.dead_letter_reason()),
            ("because", message.dead_letter_description()),
        ];
        for (name, text) in texts {
            if let Some(text) = text {
                write!(f, ", {name} {text:?}")?;
            }
        }
        for (name, value) in message.application_properties().iter() {
            match value.as_str() {
                _ if [DeadLetter::REASON, DeadLetter::DESCRIPTION].contains(&name) => {}
                Some(text) => write!(f, ", {name:?} = {text:?}")?,
                None => write!(f, ", {name:?} = {value:?}")?,
            }
        }
        Ok(())
    }
}
