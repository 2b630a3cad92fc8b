//! The ContentType of a message: the text as it was sent, and its meaning.

mod convert;
mod essence;
mod excerpt;
mod malformed;
mod parse;

use std::{
    fmt,
    hash::{Hash, Hasher},
    sync::OnceLock,
};

use mime::Mime;

pub use self::{essence::essence_of, malformed::MalformedContentType};
pub(crate) use self::{
    excerpt::excerpt,
    parse::{is_blank, is_name, without_white},
};

/// The ContentType of a message: the text that was sent, and its parsed form. Parsing never fails: text that is not a media
/// type is kept and is [malformed](ContentType::is_malformed).
///
/// The grammar is that of RFC 2045, section 5.1, and RFC 9110, section 8.3.1. A comment in parentheses counts as white space.
/// A quoted value may have characters outside of US-ASCII. A parameter without a value is ignored, and so are white space and
/// line breaks at the end.
///
/// Two are equal when they mean the same (RFC 2045): type, subtype, names of parameters and charset compare without case,
/// other values with case; quotes, white space, comments and the order of parameters do not count. Malformed texts are equal
/// when their bytes are. `Display` writes the canonical form: lower case, `;` without spaces, quotes only where they are
/// needed.
///
/// ```
/// use consign_codecs::ContentType;
///
/// let declared = ContentType::parse("Application/Vnd.Acme+JSON ; Charset=\"UTF-8\" (an order)");
/// assert_eq!(declared.essence(), Some("application/vnd.acme+json"));
/// assert_eq!(declared.suffix(), Some("json"));
/// assert_eq!(declared.charset(), Some("utf-8"));
/// assert_eq!(declared.to_string(), "application/vnd.acme+json;charset=utf-8");
/// assert_eq!(declared.as_str(), "Application/Vnd.Acme+JSON ; Charset=\"UTF-8\" (an order)");
///
/// assert!(ContentType::parse("json").is_malformed());
/// ```
///
/// # `mime`
///
/// [`Mime`] is accepted wherever a ContentType is set, converts into a `ContentType`, compares with
/// one, and [`mime`](Self::mime) returns one.
///
/// ```
/// use consign_codecs::{ContentType, mime};
///
/// let declared = ContentType::from(mime::TEXT_PLAIN_UTF_8);
/// assert_eq!(declared, mime::TEXT_PLAIN_UTF_8);
/// assert_eq!(declared.mime().and_then(|mime| mime.get_param(mime::CHARSET)), Some(mime::UTF_8));
/// ```
#[derive(Clone)]
pub struct ContentType {
    raw: Box<str>,
    view: Result<View, MalformedContentType>,
}

#[derive(Clone, Debug)]
struct View {
    /// `type/subtype;name=value`, of which the first `essence` bytes are `type/subtype`.
    canonical: Box<str>,
    essence: usize,
    /// Created by the first call that returns it: no codec needs it.
    mime: OnceLock<Option<Mime>>,
    parameters: Box<[Parameter]>,
    duplicate: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Parameter {
    name: Box<str>,
    value: Box<str>,
}

impl ContentType {
    /// A text that is longer, without white space around it, is malformed: 255 bytes.
    pub const MAX_BYTES: usize = 255;
    /// A text with more parameters is malformed: 8.
    pub const MAX_PARAMETERS: usize = 8;

    /// Parses `raw`, which is stored unchanged.
    #[must_use]
    pub fn parse(raw: &str) -> Self {
        Self { raw: raw.into(), view: parse::parse(raw) }
    }

    /// Returns the text that was sent.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.raw
    }

    /// Returns the same as a [`Mime`], which is created by the first call and kept. `None` if it is malformed, or has a
    /// parameter whose value `mime` cannot hold: an empty one, or one with a tab, a quote or a backslash.
    #[must_use]
    pub fn mime(&self) -> Option<&Mime> {
        let view = self.view()?;
        view.mime.get_or_init(|| view.to_mime()).as_ref()
    }

    /// Returns whether the text is not a media type.
    #[must_use]
    pub fn is_malformed(&self) -> bool {
        self.view.is_err()
    }

    /// Returns why the text is not a media type.
    #[must_use]
    pub fn malformed(&self) -> Option<MalformedContentType> {
        self.view.as_ref().err().copied()
    }

    /// Returns `type/subtype` in lower case.
    #[must_use]
    pub fn essence(&self) -> Option<&str> {
        self.view().map(View::essence)
    }

    /// Returns the structured-syntax suffix (RFC 6839) in lower case: `json` of `application/vnd.acme.order+json`.
    #[must_use]
    pub fn suffix(&self) -> Option<&str> {
        let (_, subtype) = self.essence()?.split_once('/')?;
        Some(subtype.rsplit_once('+')?.1)
    }

    /// Returns the declared charset, in lower case.
    #[must_use]
    pub fn charset(&self) -> Option<&str> {
        self.parameter("charset")
    }

    /// Returns a parameter, by case-insensitive name: its value without quotes and escapes. The first counts if there are
    /// several.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<&str> {
        // Names are stored in lower case, and nearly always requested so.
        let is_named = |candidate: &str| candidate == name || candidate.eq_ignore_ascii_case(name);
        self.parameters().find(|(candidate, _)| is_named(candidate)).map(|(_, value)| value)
    }

    /// Returns names, in lower case, and values of all parameters, in their order in the text.
    pub fn parameters(&self) -> impl Iterator<Item = (&str, &str)> {
        self.view().into_iter().flat_map(|view| &view.parameters).map(|parameter| (&*parameter.name, &*parameter.value))
    }

    /// Returns whether a parameter occurs twice. The first one counts.
    #[must_use]
    pub fn has_duplicate_parameter(&self) -> bool {
        self.view().is_some_and(|view| view.duplicate)
    }

    pub(crate) fn top_level(&self) -> Option<&str> {
        Some(self.essence()?.split_once('/')?.0)
    }

    fn view(&self) -> Option<&View> {
        self.view.as_ref().ok()
    }
}

impl View {
    fn new(essence: &str, parameters: Vec<Parameter>, duplicate: bool) -> Self {
        let mut canonical = essence.to_owned();
        for parameter in &parameters {
            write_parameter(&mut canonical, parameter);
        }
        let parameters = parameters.into();
        Self { essence: essence.len(), canonical: canonical.into(), mime: OnceLock::new(), parameters, duplicate }
    }

    fn to_mime(&self) -> Option<Mime> {
        // `mime` would return escaped characters with their escapes.
        let escapes = self.parameters.iter().any(|parameter| parameter.value.contains(['"', '\\']));
        if escapes { None } else { self.canonical.parse().ok() }
    }

    fn essence(&self) -> &str {
        &self.canonical[..self.essence]
    }
}

fn write_parameter(out: &mut String, Parameter { name, value }: &Parameter) {
    out.push(';');
    out.push_str(name);
    out.push('=');
    if !value.is_empty() && value.chars().all(parse::is_token) {
        return out.push_str(value);
    }
    out.push('"');
    for character in value.chars() {
        if matches!(character, '"' | '\\') {
            out.push('\\');
        }
        out.push(character);
    }
    out.push('"');
}

impl PartialEq for ContentType {
    fn eq(&self, other: &Self) -> bool {
        match (self.view(), other.view()) {
            (Some(this), Some(that)) => {
                this.essence() == that.essence()
                    && this.parameters.len() == that.parameters.len()
                    && this.parameters.iter().all(|parameter| that.parameters.contains(parameter))
            }
            (None, None) => self.raw == other.raw,
            _ => false,
        }
    }
}

impl Eq for ContentType {}

impl Hash for ContentType {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // The order of the parameters does not count, so the hash includes only parts without an order.
        match self.view() {
            Some(view) => (view.essence(), view.parameters.len(), self.charset()).hash(state),
            None => self.raw.hash(state),
        }
    }
}

/// The canonical form; of a malformed text at most 64 characters, with control characters escaped.
impl fmt::Display for ContentType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.view() {
            Some(view) => f.write_str(&view.canonical),
            None => f.write_str(&excerpt(&self.raw)),
        }
    }
}

impl fmt::Debug for ContentType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_malformed() { "malformed " } else { "" })?;
        match self.view() {
            Some(view) if view.canonical.is_ascii() => write!(f, "`{}`", view.canonical),
            Some(view) => write!(f, "`{}`", excerpt(&view.canonical)),
            None => write!(f, "`{self}`"),
        }
    }
}
