//! Text XML in UTF-8, as far as a serializer writes it: elements, attributes, character data, references to characters and to
//! the five predefined entities, comments and processing instructions. A document type is refused, so no entity expands.

use std::{borrow::Cow, str};

use super::{
    document::{Attribute, Builder, Document},
    value::Value,
};
use crate::{DecodeError, DecodeErrorKind as Kind, Limits, limits::text_position};

/// Reads a text that was checked to be UTF-8.
pub(super) fn parse<'a>(text: &'a str, limits: &Limits) -> Result<Document<'a>, DecodeError> {
    let mut reader = Reader { text, at: 0 };
    let mut builder = Builder::new(limits);
    while !reader.rest().is_empty() {
        step(&mut reader, &mut builder)?;
    }
    if builder.is_done() { Ok(builder.finish(Some(text))) } else { Err(reader.refuse(Kind::Truncated, reader.at)) }
}

/// Reads one tag, comment, instruction or text.
fn step<'a>(reader: &mut Reader<'a>, builder: &mut Builder<'a>) -> Result<(), DecodeError> {
    let rest = reader.rest();
    if rest.starts_with("<!--") {
        reader.until("<!--", "-->").map(drop)
    } else if rest.starts_with("<![CDATA[") {
        let start = reader.at;
        let text = reader.until("<![CDATA[", "]]>")?;
        builder.value(Value::Text(Cow::Borrowed(text)), start).map_err(|kind| reader.refuse(kind, start))
    } else if rest.starts_with("<?") {
        reader.until("<?", "?>").map(drop)
    } else if ["<!--", "<![CDATA["].iter().any(|start| rest.len() > 1 && start.starts_with(rest)) {
        Err(reader.refuse(Kind::Truncated, reader.text.len()))
    } else if rest.starts_with("<!") {
        let error = reader.refuse(Kind::Syntax, reader.at);
        Err(error.with_detail("a document type is not supported"))
    } else if rest.starts_with("</") {
        end_tag(reader, builder)
    } else if rest.starts_with('<') {
        start_tag(reader, builder)
    } else {
        text(reader, builder)
    }
}

fn end_tag<'a>(reader: &mut Reader<'a>, builder: &mut Builder<'a>) -> Result<(), DecodeError> {
    let start = reader.at;
    reader.at += 2;
    let name = reader.name()?;
    let is_open = builder.open_name() == Some(name);
    reader.space();
    reader.expect('>')?;
    if !is_open {
        return Err(reader.refuse(Kind::Syntax, start).with_expected("the end of the element that started last"));
    }
    builder.end().map_err(|kind| reader.refuse(kind, start))
}

fn start_tag<'a>(reader: &mut Reader<'a>, builder: &mut Builder<'a>) -> Result<(), DecodeError> {
    let start = reader.at;
    reader.at += 1;
    let name = reader.name()?;
    let (prefix, local) = split(name);
    builder.start(prefix, local, name, start).map_err(|kind| reader.refuse(kind, start))?;
    loop {
        let had_space = reader.space();
        let at = reader.at;
        if reader.skip('>') {
            return builder.content().map_err(|kind| reader.refuse(kind, start));
        }
        if reader.skip('/') {
            reader.expect('>')?;
            builder.content().map_err(|kind| reader.refuse(kind, start))?;
            return builder.end().map_err(|kind| reader.refuse(kind, start));
        }
        if !had_space && !reader.rest().is_empty() {
            return Err(reader.refuse(Kind::Syntax, at).with_expected("white space, `/` or `>`"));
        }
        let (prefix, name) = split(reader.name()?);
        reader.space();
        reader.expect('=')?;
        reader.space();
        let value = attribute_value(reader)?;
        let result = match (prefix, name) {
            ("", "xmlns") => builder.declare("", value),
            ("xmlns", prefix) => builder.declare(prefix, value),
            _ => builder.attribute(Attribute { prefix, name, is_true: matches!(value.trim(), "true" | "1") }),
        };
        result.map_err(|kind| reader.refuse(kind, at))?;
    }
}

fn split(name: &str) -> (&str, &str) {
    name.split_once(':').unwrap_or(("", name))
}

fn attribute_value<'a>(reader: &mut Reader<'a>) -> Result<Cow<'a, str>, DecodeError> {
    let start = reader.at;
    let quote = if reader.skip('"') { '"' } else { '\'' };
    if quote == '\'' {
        reader.expect('\'')?;
    }
    let from = reader.at;
    let len = reader.rest().find(quote).ok_or_else(|| reader.refuse(Kind::Truncated, reader.text.len()))?;
    let value = reader.rest().get(..len).unwrap_or_default();
    reader.at += len + 1;
    if value.contains('<') {
        return Err(reader.refuse(Kind::Syntax, start).with_expected("an attribute without `<`"));
    }
    unescaped(reader, value, from)
}

/// Reads character data up to the next tag.
fn text<'a>(reader: &mut Reader<'a>, builder: &mut Builder<'a>) -> Result<(), DecodeError> {
    let start = reader.at;
    let rest = reader.rest();
    let text = rest.get(..rest.find('<').unwrap_or(rest.len())).unwrap_or_default();
    reader.at += text.len();
    if builder.open_name().is_none() {
        if text.trim_matches(is_space).is_empty() {
            return Ok(());
        }
        let kind = if builder.is_done() { Kind::Trailing } else { Kind::Syntax };
        return Err(reader.refuse(kind, start).with_expected("the start of an element"));
    }
    if let Some(at) = text.find("]]>") {
        return Err(reader.refuse(Kind::Syntax, start + at).with_detail("`]]>` outside of a CDATA section"));
    }
    let value = unescaped(reader, text, start)?;
    builder.value(Value::Text(value), start).map_err(|kind| reader.refuse(kind, start))
}

const fn is_space(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\r' | '\n')
}

/// Replaces references, and line breaks by a line feed. Text without either is borrowed.
fn unescaped<'a>(reader: &Reader<'a>, text: &'a str, start: usize) -> Result<Cow<'a, str>, DecodeError> {
    if !text.contains(['&', '\r']) {
        return Ok(Cow::Borrowed(text));
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['&', '\r']) {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        if let Some(after) = from.strip_prefix('\r') {
            if !after.starts_with('\n') {
                out.push('\n');
            }
            rest = after;
            continue;
        }
        let place = start + text.len() - from.len();
        let refused = || {
            let is_cut = place + from.len() == reader.text.len() && !from.contains(';');
            let kind = if is_cut { Kind::Truncated } else { Kind::Syntax };
            reader.refuse(kind, place).with_expected("a reference to a character")
        };
        let (reference, after) = from.get(1..).and_then(|from| from.split_once(';')).ok_or_else(refused)?;
        out.push(character(reference).ok_or_else(refused)?);
        rest = after;
    }
    out.push_str(rest);
    Ok(Cow::Owned(out))
}

fn character(reference: &str) -> Option<char> {
    let (digits, radix) = match reference {
        "lt" => return Some('<'),
        "gt" => return Some('>'),
        "amp" => return Some('&'),
        "quot" => return Some('"'),
        "apos" => return Some('\''),
        _ => match (reference.strip_prefix("#x"), reference.strip_prefix('#')) {
            (Some(digits), _) => (digits, 16),
            (None, Some(digits)) => (digits, 10),
            (None, None) => return None,
        },
    };
    // `from_str_radix` takes a sign.
    let is_number = !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(radix));
    let number = if is_number { u32::from_str_radix(digits, radix).ok() } else { None };
    // .NET writes control characters as references too, although XML 1.0 has no place for them.
    number.and_then(char::from_u32)
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    #[cold]
    fn refuse(&self, kind: Kind, at: usize) -> DecodeError {
        DecodeError::new(kind).at(text_position(self.text.as_bytes(), at))
    }

    /// Reads a part from `open`, which is here, to `close`, and returns what is between.
    fn until(&mut self, open: &str, close: &str) -> Result<&'a str, DecodeError> {
        let inside = self.rest().get(open.len()..).unwrap_or_default();
        let len = inside.find(close).ok_or_else(|| self.refuse(Kind::Truncated, self.text.len()))?;
        self.at += open.len() + len + close.len();
        Ok(inside.get(..len).unwrap_or_default())
    }

    /// Skips white space, and returns whether there was any.
    fn space(&mut self) -> bool {
        let rest = self.rest();
        let len = rest.len() - rest.trim_start_matches(is_space).len();
        self.at += len;
        len > 0
    }

    fn skip(&mut self, character: char) -> bool {
        let is_here = self.rest().starts_with(character);
        self.at += if is_here { character.len_utf8() } else { 0 };
        is_here
    }

    fn expect(&mut self, character: char) -> Result<(), DecodeError> {
        if self.skip(character) {
            return Ok(());
        }
        let kind = if self.rest().is_empty() { Kind::Truncated } else { Kind::Syntax };
        Err(self.refuse(kind, self.at).with_expected(format!("`{character}`")))
    }

    /// Reads a name with its prefix.
    fn name(&mut self) -> Result<&'a str, DecodeError> {
        let rest = self.rest();
        let is_end = |character: char| {
            is_space(character)
                || (character.is_ascii() && !character.is_ascii_alphanumeric() && !":_-.".contains(character))
        };
        let name = rest.get(..rest.find(is_end).unwrap_or(rest.len())).unwrap_or_default();
        let (prefix, local) = split(name);
        let starts = |part: &str| part.starts_with(|first: char| !matches!(first, '0'..='9' | '-' | '.' | ':'));
        if starts(local) && !local.contains(':') && (prefix.is_empty() || starts(prefix)) && !name.starts_with(':') {
            self.at += name.len();
            return Ok(name);
        }
        let is_cut = name.len() == rest.len();
        let kind = if is_cut { Kind::Truncated } else { Kind::Syntax };
        Err(self.refuse(kind, self.at).with_expected("a name"))
    }
}
