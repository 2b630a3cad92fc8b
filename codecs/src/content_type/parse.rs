//! One grammar for received texts: RFC 2045 section 5.1 with the optional white space and the empty parameters of RFC 9110. A
//! comment counts as white space. The page of [`ContentType`] has the reason why `mime` does not parse here. The tests compare
//! this parser with `mediatype`.

use super::{ContentType, MalformedContentType, Parameter, View};

const WHITE: [char; 2] = [' ', '\t'];
/// The last line of a header may come with its end.
const END: [char; 4] = [' ', '\t', '\r', '\n'];

pub(super) fn parse(raw: &str) -> Result<View, MalformedContentType> {
    let text = without_white(raw);
    if text.len() > ContentType::MAX_BYTES {
        return Err(MalformedContentType::TooLong);
    }
    if text.bytes().any(|byte| byte.is_ascii_control() && byte != b'\t') {
        return Err(MalformedContentType::ControlCharacter);
    }
    if text.is_empty() {
        return Err(MalformedContentType::Empty);
    }
    let text = skip_white(text)?;
    let (essence, rest) = text.split_at(text.find([';', '(']).unwrap_or(text.len()));
    let essence = parse_essence(essence.trim_end_matches(WHITE))?;
    let rest = skip_white(rest)?;
    if !rest.is_empty() && !rest.starts_with(';') {
        return Err(MalformedContentType::InvalidName);
    }
    let (parameters, duplicate) = parse_parameters(rest)?;
    Ok(View::new(&essence, parameters, duplicate))
}

/// Returns the text without white space around it.
pub(crate) fn without_white(raw: &str) -> &str {
    raw.trim_end_matches(END).trim_start_matches(WHITE)
}

/// Returns whether a set of codecs treats the text as a missing one.
pub(crate) fn is_blank(text: &str) -> bool {
    text.trim_end_matches(END).is_empty()
}

/// Returns the text after white space and comments. Comments nest, as deep as the text is long.
fn skip_white(text: &str) -> Result<&str, MalformedContentType> {
    let mut rest = text.trim_start_matches(WHITE);
    while rest.starts_with('(') {
        rest = past_comment(rest)?.trim_start_matches(WHITE);
    }
    Ok(rest)
}

fn past_comment(text: &str) -> Result<&str, MalformedContentType> {
    let mut depth = 0_usize;
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '(' => depth += 1,
            ')' if depth == 1 => return Ok(&text[at + 1..]),
            ')' => depth -= 1,
            '\\' => drop(characters.next()),
            _ => {}
        }
    }
    Err(MalformedContentType::UnclosedComment)
}

fn parse_essence(text: &str) -> Result<String, MalformedContentType> {
    if !text.is_ascii() {
        return Err(MalformedContentType::NotAscii);
    }
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
        rest = skip_white(rest)?;
        if rest.is_empty() {
            let duplicate = seen > parameters.len();
            return Ok((parameters, duplicate));
        }
        if let Some(after) = rest.strip_prefix(';') {
            rest = after;
            continue;
        }
        let (parameter, after) = parse_parameter(rest)?;
        rest = skip_white(after)?;
        if !rest.is_empty() && !rest.starts_with(';') {
            return Err(unexpected(rest));
        }
        let Some(parameter) = parameter else { continue };
        seen += 1;
        if seen > ContentType::MAX_PARAMETERS {
            return Err(MalformedContentType::TooManyParameters);
        }
        if parameters.iter().all(|earlier| earlier.name != parameter.name) {
            parameters.push(parameter);
        }
    }
}

/// Returns a parameter, and the text after it. `None` for a name without a value: `charset` and `charset=` have no meaning.
fn parse_parameter(text: &str) -> Result<(Option<Parameter>, &str), MalformedContentType> {
    let (name, rest) = split_token(text);
    if name.is_empty() {
        return Err(unexpected(rest));
    }
    let Some(rest) = rest.strip_prefix('=') else { return Ok((None, rest)) };
    let (mut value, rest) = match rest.strip_prefix('"') {
        Some(quoted) => parse_quoted(quoted)?,
        None => match split_token(rest) {
            ("", rest) => return Ok((None, rest)),
            (token, rest) => (token.to_owned(), rest),
        },
    };
    let name = name.to_ascii_lowercase();
    if name == "charset" {
        value.make_ascii_lowercase();
    }
    Ok((Some(Parameter { name: name.into(), value: value.into() }), rest))
}

/// Returns why a list of parameters cannot continue like this.
fn unexpected(rest: &str) -> MalformedContentType {
    if rest.starts_with(|first: char| !first.is_ascii()) {
        return MalformedContentType::NotAscii;
    }
    MalformedContentType::InvalidParameter
}

/// Returns the unescaped value of a quoted string after its opening quote, and the text after its end.
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
