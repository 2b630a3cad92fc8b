//! Characters to tokens, one at a time.

use super::{ParseError, ParseErrorKind};

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token<'a> {
    /// A keyword or a name without delimiters.
    Word(&'a str),
    /// A name between delimiters.
    Name(Box<str>),
    Text(Box<str>),
    /// The name of a parameter, with its `@`.
    Parameter(&'a str),
    /// At most 2^63, which is in range after a minus sign only.
    Integer(u64),
    Float(f64),
    Sign(&'static str),
    End,
}

/// A token and the bytes from `start` to `end` where it stands.
#[derive(Debug)]
pub(super) struct Spanned<'a> {
    pub(super) token: Token<'a>,
    pub(super) start: usize,
    pub(super) end: usize,
}

#[derive(Debug)]
pub(super) struct Lexer<'a> {
    text: &'a str,
    position: usize,
}

/// Longer signs before the shorter ones that they begin with.
const SIGNS: [&str; 17] = ["<>", "!=", "<=", ">=", "=", "<", ">", "+", "-", "*", "/", "%", "(", ")", ",", ".", ";"];

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, position: 0 }
    }

    pub(super) fn next(&mut self) -> Result<Spanned<'a>, ParseError> {
        let rest = self.rest().trim_start();
        self.position = self.text.len() - rest.len();
        let start = self.position;
        let token = match rest.chars().next() {
            None => Token::End,
            Some('\'') => Token::Text(self.delimited('\'', ParseErrorKind::UnterminatedString)?),
            Some('[') => self.name(']')?,
            Some('"') => self.name('"')?,
            Some('@') if rest[1..].starts_with(char::is_alphabetic) => {
                self.position += 1;
                self.skip(|char| char.is_alphanumeric() || char == '_');
                Token::Parameter(&self.text[start..self.position])
            }
            Some(first) if first.is_ascii_digit() => self.number()?,
            Some(first) if first.is_alphabetic() => {
                self.skip(|char| char.is_alphanumeric() || char == '_');
                Token::Word(&self.text[start..self.position])
            }
            Some(other) => match SIGNS.into_iter().find(|sign| rest.starts_with(sign)) {
                Some(sign) => {
                    self.position += sign.len();
                    Token::Sign(sign)
                }
                None => return Err(self.error(ParseErrorKind::UnexpectedCharacter, start, start + other.len_utf8())),
            },
        };
        Ok(Spanned { token, start, end: self.position })
    }

    fn rest(&self) -> &'a str {
        &self.text[self.position..]
    }

    fn error(&self, kind: ParseErrorKind, start: usize, end: usize) -> ParseError {
        ParseError::new(kind, self.text, start, end)
    }

    fn skip(&mut self, accepted: impl Fn(char) -> bool) {
        let rest = self.rest();
        self.position += rest.find(|char| !accepted(char)).unwrap_or(rest.len());
    }

    fn name(&mut self, close: char) -> Result<Token<'a>, ParseError> {
        let start = self.position;
        let name = self.delimited(close, ParseErrorKind::UnterminatedName)?;
        if name.is_empty() {
            return Err(self.error(ParseErrorKind::EmptyName, start, self.position));
        }
        Ok(Token::Name(name))
    }

    /// What stands up to `close`, of which two stand for one. The opening delimiter is one byte, as `close` is.
    fn delimited(&mut self, close: char, unterminated: ParseErrorKind) -> Result<Box<str>, ParseError> {
        let start = self.position;
        let mut content = String::new();
        loop {
            self.position += 1;
            let rest = self.rest();
            let Some(length) = rest.find(close) else {
                return Err(self.error(unterminated, start, self.text.len()));
            };
            content.push_str(&rest[..length]);
            self.position += length + 1;
            if !self.rest().starts_with(close) {
                return Ok(content.into());
            }
            content.push(close);
        }
    }

    fn number(&mut self) -> Result<Token<'a>, ParseError> {
        let start = self.position;
        let digits = |lexer: &mut Self| {
            let before = lexer.position;
            lexer.skip(|char| char.is_ascii_digit());
            lexer.position > before
        };
        let mut well_formed = digits(self);
        let mut integer = true;
        if self.rest().starts_with('.') {
            integer = false;
            self.position += 1;
            well_formed &= digits(self);
        }
        if self.rest().starts_with(['e', 'E']) {
            integer = false;
            self.position += 1;
            if self.rest().starts_with(['+', '-']) {
                self.position += 1;
            }
            well_formed &= digits(self);
        }
        // A name that begins in the middle of a number is a slip of the pen.
        let end = self.position;
        self.skip(|char| char.is_alphanumeric() || char == '_');
        if !well_formed || self.position > end {
            return Err(self.error(ParseErrorKind::MalformedNumber, start, self.position));
        }
        let written = &self.text[start..end];
        let token = if integer {
            written.parse().ok().filter(|value| *value <= 1 << 63).map(Token::Integer)
        } else {
            written.parse().ok().filter(|value: &f64| value.is_finite()).map(Token::Float)
        };
        token.ok_or_else(|| self.error(ParseErrorKind::NumberOutOfRange, start, end))
    }
}
