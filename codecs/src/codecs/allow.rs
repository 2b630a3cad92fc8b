//! The media types that an endpoint allows.

use std::fmt;

use crate::{ContentType, MediaType, content_type::is_name};

/// `None` allows every type.
#[derive(Clone, Debug, Default)]
pub(super) struct Allowed(Option<Box<[Entry]>>);

#[derive(Clone, Debug)]
enum Entry {
    Exact(ContentType),
    Suffix(Box<str>),
    Range(Box<str>),
}

impl Allowed {
    /// Parses a list of these entries; an error is the first invalid entry.
    pub(super) fn of(entries: &[String]) -> Result<Self, &str> {
        let parsed: Result<_, _> = entries.iter().map(|text| Entry::parse(text).ok_or(&**text)).collect();
        Ok(Self(Some(parsed?)))
    }

    /// Returns whether there is no list.
    #[inline]
    pub(super) fn is_everything(&self) -> bool {
        self.0.is_none()
    }

    /// Returns which of these types are allowed, with patterns such as `application/*+json`.
    pub(super) fn allowed_of(&self, types: &MediaType) -> Vec<String> {
        match &self.0 {
            None => vec![types.to_string()],
            Some(_) if types.is_exact() => {
                let is_allowed = self.allows(&ContentType::parse(types.as_str()));
                is_allowed.then(|| types.to_string()).into_iter().collect()
            }
            Some(entries) => entries.iter().filter_map(|entry| entry.within(types)).collect(),
        }
    }

    pub(super) fn allows(&self, declared: &ContentType) -> bool {
        self.0.as_ref().is_none_or(|entries| entries.iter().any(|entry| entry.allows(declared)))
    }
}

impl Entry {
    fn parse(text: &str) -> Option<Self> {
        let text = text.to_ascii_lowercase();
        if let Some(suffix) = text.strip_prefix("*/*+") {
            return is_name(suffix).then(|| Self::Suffix(suffix.into()));
        }
        if let Some(top_level) = text.strip_suffix("/*") {
            return is_name(top_level).then(|| Self::Range(top_level.into()));
        }
        let content_type = ContentType::parse(&text);
        let plain = content_type.parameters().next().is_none();
        (plain && !content_type.is_malformed()).then_some(Self::Exact(content_type))
    }

    fn allows(&self, declared: &ContentType) -> bool {
        match self {
            Self::Exact(content_type) => declared.essence() == content_type.essence(),
            Self::Suffix(suffix) => declared.suffix() == Some(suffix),
            Self::Range(top_level) => declared.top_level() == Some(top_level),
        }
    }
}

impl Entry {
    /// Returns the types of a suffix or a range that the entry allows.
    fn within(&self, types: &MediaType) -> Option<String> {
        let text = types.as_str();
        match self {
            Self::Exact(own) => {
                let part = if types.is_suffix() { own.suffix() } else { own.top_level() };
                (part == Some(text)).then(|| own.to_string())
            }
            Self::Suffix(suffix) if types.is_range() => Some(format!("{text}/*+{suffix}")),
            Self::Range(top_level) if types.is_suffix() => Some(format!("{top_level}/*+{text}")),
            Self::Suffix(own) | Self::Range(own) => (**own == *text).then(|| types.to_string()),
        }
    }
}

impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(entries) = &self.0 else {
            return f.write_str("every type");
        };
        for (at, entry) in entries.iter().enumerate() {
            f.write_str(if at == 0 { "" } else { ", " })?;
            match entry {
                Entry::Exact(content_type) => write!(f, "{content_type}")?,
                Entry::Suffix(suffix) => write!(f, "*/*+{suffix}")?,
                Entry::Range(top_level) => write!(f, "{top_level}/*")?,
            }
        }
        Ok(())
    }
}
