//! The parser's place in the text, and what every rule of the grammar does with it.

use super::{Parsed, Parser};
use crate::sql::{
    ParseError, ParseErrorKind,
    lexer::{Lexer, Spanned, Token},
    parameters::Parameters,
};

/// Longest text of a filter or an action: UTF-16 code units.
const MAX_LENGTH: usize = 1_024;
/// How often parentheses, signs, `NOT` and functions may be inside each other.
const MAX_DEPTH: usize = 64;

impl<'a> Parser<'a> {
    pub(in crate::sql) fn new(text: &'a str, parameters: &'a Parameters, in_action: bool) -> Parsed<Self> {
        let mut units = 0;
        for (position, char) in text.char_indices() {
            units += char.len_utf16();
            if units > MAX_LENGTH {
                let kind = ParseErrorKind::TooLong { limit: MAX_LENGTH };
                return Err(ParseError::new(kind, text, position, position));
            }
        }
        let mut lexer = Lexer::new(text);
        let current = lexer.next()?;
        Ok(Self { text, lexer, current, previous_end: 0, depth: 0, in_action, parameters })
    }

    pub(in crate::sql) fn at_end(&self) -> bool {
        self.current.token == Token::End
    }

    /// Where the current token begins.
    pub(in crate::sql) fn position(&self) -> usize {
        self.current.start
    }

    /// Where what was taken ends.
    pub(in crate::sql) fn previous_end(&self) -> usize {
        self.previous_end
    }

    /// Takes the sign if it is there.
    pub(in crate::sql) fn take_sign(&mut self, sign: &'static str) -> Parsed<bool> {
        let found = self.current.token == Token::Sign(sign);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    pub(in crate::sql) fn sign(&mut self, sign: &'static str) -> Parsed<()> {
        if self.take_sign(sign)? { Ok(()) } else { Err(self.unexpected(sign)) }
    }

    /// Takes the word if it is there.
    pub(in crate::sql) fn take_word(&mut self, word: &str) -> Parsed<bool> {
        let found = self.is_word(word);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    /// The current token cannot stand there.
    #[cold]
    pub(in crate::sql) fn unexpected(&self, expected: &'static str) -> ParseError {
        let Spanned { ref token, start, end } = self.current;
        let kind = match token {
            Token::End => ParseErrorKind::UnexpectedEnd { expected },
            // Its negative would be in range.
            Token::Integer(value) if *value > i64::MAX.unsigned_abs() => ParseErrorKind::NumberOutOfRange,
            _ => ParseErrorKind::UnexpectedToken { expected },
        };
        self.error(kind, start, end)
    }

    #[cold]
    pub(in crate::sql) fn error(&self, kind: ParseErrorKind, start: usize, end: usize) -> ParseError {
        ParseError::new(kind, self.text, start, end)
    }

    pub(super) fn advance(&mut self) -> Parsed<()> {
        let next = self.lexer.next()?;
        self.previous_end = self.current.end;
        self.current = next;
        Ok(())
    }

    pub(super) fn is_word(&self, word: &str) -> bool {
        matches!(self.current.token, Token::Word(found) if found.eq_ignore_ascii_case(word))
    }

    pub(super) fn word(&mut self, word: &'static str) -> Parsed<()> {
        if self.take_word(word)? { Ok(()) } else { Err(self.unexpected(word)) }
    }

    /// Takes one token and reads what is inside of what it opens.
    pub(super) fn nested<T>(&mut self, inside: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth == MAX_DEPTH {
            let kind = ParseErrorKind::TooDeep { limit: MAX_DEPTH };
            return Err(self.error(kind, self.current.start, self.current.end));
        }
        self.depth += 1;
        self.advance()?;
        let result = inside(self);
        self.depth -= 1;
        result
    }
}
