//! One grammar for what is read: RFC 2045 section 5.1 with the optional white space and the empty parameters of RFC 9110.
//! `mime` and `mediatype` each refuse a part of that, so neither parses here; the tests hold one of them against this.

use super::{ContentType, MalformedContentType, Parameter, View};

const WHITE: [char; 2] = [' ', '\t'];

pub(super) fn parse(raw: &str) -> Result<View, MalformedContentType> {
    check_characters(raw)?;
    let text = raw.trim_matches(WHITE);
    if text.is_empty() {
        return Err(MalformedContentType::Empty);
    }
    let (essence, parameters) = text.split_once(';').unwrap_or((text, ""));
    let essence = parse_essence(essence.trim_end_matches(WHITE))?;
    let (parameters, duplicate) = parse_parameters(parameters)?;
    Ok(View::new(&essence, parameters, duplicate))
}

fn check_characters(raw: &str) -> Result<(), MalformedContentType> {
    if raw.len() > ContentType::MAX_BYTES {
        return Err(MalformedContentType::TooLong);
    }
    if raw.bytes().any(|byte| byte.is_ascii_control() && byte != b'\t') {
        return Err(MalformedContentType::ControlCharacter);
    }
    if !raw.is_ascii() {
        return Err(MalformedContentType::NotAscii);
    }
    Ok(())
}

fn parse_essence(text: &str) -> Result<String, MalformedContentType> {
    let (top_level, subtype) = text.split_once('/').ok_or(MalformedContentType::MissingSlash)?;
    if top_level == "*" || subtype == "*" {
        return Err(MalformedContentType::Wildcard);
    }
    if !is_name(top_level) || !is_name(subtype) || subtype.ends_with('+') {
        return Err(MalformedContentType::InvalidName);
    }
    Ok(text.to_ascii_lowercase())
}

fn parse_parameters(mut rest: &str) -> Result<(Vec<Parameter>, bool), MalformedContentType> {
    let mut parameters: Vec<Parameter> = Vec::new();
    let mut seen = 0;
    loop {
        rest = rest.trim_start_matches(WHITE);
        if rest.is_empty() {
            let duplicate = seen > parameters.len();
            return Ok((parameters, duplicate));
        }
        if let Some(after) = rest.strip_prefix(';') {
            rest = after;
            continue;
        }
        let (parameter, after) = parse_parameter(rest)?;
        seen += 1;
        if seen > ContentType::MAX_PARAMETERS {
            return Err(MalformedContentType::TooManyParameters);
        }
        if parameters.iter().all(|earlier| earlier.name != parameter.name) {
            parameters.push(parameter);
        }
        rest = after.trim_start_matches(WHITE);
        if !rest.is_empty() {
            rest = rest.strip_prefix(';').ok_or(MalformedContentType::InvalidParameter)?;
        }
    }
}

fn parse_parameter(text: &str) -> Result<(Parameter, &str), MalformedContentType> {
    let (name, rest) = split_token(text);
    let rest = rest.strip_prefix('=').filter(|_| !name.is_empty()).ok_or(MalformedContentType::InvalidParameter)?;
    let (mut value, rest) = match rest.strip_prefix('"') {
        Some(quoted) => parse_quoted(quoted)?,
        None => match split_token(rest) {
            ("", _) => return Err(MalformedContentType::InvalidParameter),
            (token, rest) => (token.to_owned(), rest),
        },
    };
    let name = name.to_ascii_lowercase();
    if name == "charset" {
        value.make_ascii_lowercase();
    }
    Ok((Parameter { name: name.into(), value: value.into() }, rest))
}

/// The unescaped value of a quoted string whose opening quote is already gone, and what follows its end.
fn parse_quoted(text: &str) -> Result<(String, &str), MalformedContentType> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Ok((value, &text[at + 1..])),
            '\\' => value.push(characters.next().ok_or(MalformedContentType::UnclosedQuote)?.1),
            _ => value.push(character),
        }
    }
    Err(MalformedContentType::UnclosedQuote)
}

fn split_token(text: &str) -> (&str, &str) {
    text.split_at(text.find(|character| !is_token(character)).unwrap_or(text.len()))
}

/// A name as RFC 6838 registers them: a token that begins with a letter or a digit.
pub(crate) fn is_name(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphanumeric()) && text.chars().all(is_token)
}

pub(super) fn is_token(character: char) -> bool {
    character.is_ascii_graphic() && !"()<>@,;:\\\"/[]?=".contains(character)
}
