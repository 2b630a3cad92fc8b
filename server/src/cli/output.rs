//! What a command prints.

use std::{
    fmt::{self, Write as _},
    io::{self, Write},
};

use consign_core::message::entity_path::is_hidden;
use serde::Serialize;

use super::failure::Failure;

/// The standard output of a command: lines for people, or JSON objects.
pub(crate) struct Output {
    out: Box<dyn Write + Send>,
    pub(crate) json: bool,
}

impl Output {
    pub(crate) fn new(json: bool) -> Self {
        Self { out: Box::new(io::BufWriter::new(io::stdout())), json }
    }

    /// Writes to `out` instead of the standard output.
    #[cfg(test)]
    pub(crate) fn to(out: impl Write + Send + 'static, json: bool) -> Self {
        Self { out: Box::new(out), json }
    }

    /// Prints a line for people.
    pub(crate) fn line(&mut self, text: impl fmt::Display) -> Result<(), Failure> {
        if !self.json {
            writeln!(self.out, "{text}")?;
        }
        Ok(())
    }

    /// Prints an object for programs.
    pub(crate) fn object(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        if self.json {
            serde_json::to_writer(&mut self.out, value)?;
            writeln!(self.out)?;
        }
        Ok(())
    }

    /// Prints a line for people, or the object for programs.
    pub(crate) fn either(&mut self, text: impl fmt::Display, value: &impl Serialize) -> Result<(), Failure> {
        self.line(text)?;
        self.object(value)
    }

    pub(crate) fn writer(&mut self) -> &mut (dyn Write + Send) {
        &mut self.out
    }

    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        Ok(self.out.flush()?)
    }
}

/// Text from a message over several lines, without other control characters, and without characters that are invisible or change
/// the order of others.
pub(crate) struct Printable<'t>(pub(crate) &'t str);

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for char in self.0.chars() {
            if (char.is_control() && !matches!(char, '\n' | '\t')) || is_hidden(char) {
                write!(f, "{}", char.escape_default())?;
            } else {
                f.write_char(char)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Attacks: 54.
    #[test]
    fn text_of_a_message_cannot_control_the_terminal() {
        let shown = Printable("one\n\u{1b}[31m\u{202e}\r two\u{ad}").to_string();
        assert_eq!(shown, "one\n\\u{1b}[31m\\u{202e}\\r two\\u{ad}");
    }
}
