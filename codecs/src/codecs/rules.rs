//! The decisions of a set for a declared ContentType, computed before a body is read and without its Rust type.

use std::sync::{Arc, Mutex, PoisonError};

use super::{Declared, Policy, allow::Allowed};
use crate::{
    Chosen, CodecInfo, ContentType, Limits, MalformedContentType, MediaType,
    content_type::{is_blank, without_white},
};

/// One codec's turn. A list of steps names each codec once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) codec: usize,
    pub(super) chosen: Chosen,
}

/// A policy and its turns.
#[derive(Debug)]
pub(super) struct Route {
    pub(super) policy: Policy,
    pub(super) steps: Box<[Step]>,
}

#[derive(Debug)]
pub(super) struct Rules {
    pub(super) members: Box<[CodecInfo]>,
    pub(super) chain: Box<[usize]>,
    pub(super) allowed: Allowed,
    pub(super) limits: Limits,
    pub(super) missing: Route,
    pub(super) unknown: Route,
    pub(super) malformed: Route,
    pub(super) failed: Route,
    pub(super) not_allowed: Route,
    pub(super) cache: Cache,
}

/// The meaning of a declared text for a set.
#[derive(Debug)]
pub(super) enum Resolution {
    Missing,
    Malformed(MalformedContentType),
    Parsed(Arc<Resolved>),
}

#[derive(Debug)]
pub(super) struct Resolved {
    pub(super) content_type: ContentType,
    pub(super) declared: Declared,
    /// The member that reads this type, whether it is allowed here or not.
    pub(super) reader: Option<usize>,
    /// The turns for a known type; for others those of its case apply.
    steps: Box<[Step]>,
}

impl Rules {
    /// Returns one bit for each codec: whether comparing bytes suffices. Its exact types must be allowed, and have no
    /// parameters: for a codec that has such a type, a type without them has a meaning too.
    pub(super) fn hot(&self) -> u32 {
        let mut hot = 0;
        for (codec, member) in self.members.iter().enumerate() {
            let mut exact = member.media_types.iter().filter(|media_type| media_type.is_exact());
            let decided = |it: &MediaType| it.is_plain() && self.allowed.allows(&ContentType::parse(it.as_str()));
            hot |= u32::from(exact.all(decided)) << codec;
        }
        hot
    }

    #[cold]
    pub(super) fn resolve(&self, text: Option<&str>) -> Resolution {
        let Some(text) = text.filter(|text| !is_blank(text)) else {
            return Resolution::Missing;
        };
        // White space may be as long as the message.
        let text = if text.len() > ContentType::MAX_BYTES { without_white(text) } else { text };
        if text.len() > ContentType::MAX_BYTES {
            return Resolution::Malformed(MalformedContentType::TooLong);
        }
        if let Some(known) = self.cache.find(text) {
            return Resolution::Parsed(known);
        }
        let content_type = ContentType::parse(text);
        if let Some(why) = content_type.malformed() {
            return Resolution::Malformed(why);
        }
        let resolved = Arc::new(self.decide(content_type));
        self.cache.keep(&resolved);
        Resolution::Parsed(resolved)
    }

    pub(super) fn steps<'a>(&'a self, resolution: &'a Resolution) -> &'a [Step] {
        match resolution {
            Resolution::Missing => &self.missing.steps,
            Resolution::Malformed(_) => &self.malformed.steps,
            Resolution::Parsed(resolved) => match resolved.declared {
                Declared::NotAllowed => &self.not_allowed.steps,
                Declared::Unknown => &self.unknown.steps,
                _ => &resolved.steps,
            },
        }
    }

    fn decide(&self, content_type: ContentType) -> Resolved {
        let mut steps = self.readers(&content_type);
        let reader = steps.first().map(|step| step.codec);
        let declared = match reader {
            _ if !self.allowed.allows(&content_type) => Declared::NotAllowed,
            Some(_) => Declared::Known,
            None => Declared::Unknown,
        };
        for step in &self.failed.steps {
            push(&mut steps, *step);
        }
        Resolved { content_type, declared, reader, steps: steps.into() }
    }

    /// Returns the member that reads the type exactly and the one that reads its suffix; a range only if there is neither.
    fn readers(&self, declared: &ContentType) -> Vec<Step> {
        let mut steps = Vec::new();
        let mut specific = None;
        for (codec, member) in self.members.iter().enumerate() {
            if let Some((parameters, chosen)) = exact_match(member.media_types, declared)
                && specific.is_none_or(|(most, _)| parameters > most)
            {
                specific = Some((parameters, Step { codec, chosen }));
            }
        }
        steps.extend(specific.map(|(_, step)| step));
        if let Some(codec) = self.members.iter().position(|member| suffix_match(member.media_types, declared)) {
            push(&mut steps, Step { codec, chosen: Chosen::Suffix });
        }
        if steps.is_empty()
            && let Some(codec) = self.members.iter().position(|member| range_match(member.media_types, declared))
        {
            steps.push(Step { codec, chosen: Chosen::Range });
        }
        steps
    }
}

impl Resolution {
    pub(super) fn declared(&self) -> Declared {
        match self {
            Self::Missing => Declared::Missing,
            Self::Malformed(_) => Declared::Malformed,
            Self::Parsed(resolved) => resolved.declared,
        }
    }

    pub(super) fn content_type(&self) -> Option<&ContentType> {
        match self {
            Self::Parsed(resolved) => Some(&resolved.content_type),
            Self::Missing | Self::Malformed(_) => None,
        }
    }

    pub(super) fn malformed(&self) -> Option<MalformedContentType> {
        match self {
            Self::Malformed(why) => Some(*why),
            Self::Missing | Self::Parsed(_) => None,
        }
    }
}

/// Returns how a format with these media types reads the declared type, if it does.
pub(super) fn media_type_match(media_types: &[MediaType], declared: &ContentType) -> Option<Chosen> {
    if let Some((_, chosen)) = exact_match(media_types, declared) {
        return Some(chosen);
    }
    if suffix_match(media_types, declared) {
        return Some(Chosen::Suffix);
    }
    range_match(media_types, declared).then_some(Chosen::Range)
}

/// Returns the exact match with the most parameters. A media type without parameters leaves them to the codec.
fn exact_match(media_types: &[MediaType], declared: &ContentType) -> Option<(usize, Chosen)> {
    let mut best = None;
    for (at, media_type) in media_types.iter().enumerate().filter(|(_, media_type)| media_type.is_exact()) {
        let Some(parameters) = parameters_matched(media_type, declared) else { continue };
        if best.is_none_or(|(most, _)| parameters > most) {
            best = Some((parameters, if at == 0 { Chosen::Exact } else { Chosen::Alias }));
        }
    }
    best
}

fn parameters_matched(media_type: &MediaType, declared: &ContentType) -> Option<usize> {
    if media_type.is_plain() {
        return (declared.essence() == Some(media_type.as_str())).then_some(0);
    }
    let wanted = ContentType::parse(media_type.as_str());
    let reads = wanted.essence() == declared.essence()
        && wanted.parameters().all(|(name, value)| declared.parameter(name) == Some(value));
    reads.then(|| wanted.parameters().count())
}

fn suffix_match(media_types: &[MediaType], declared: &ContentType) -> bool {
    let suffix = declared.suffix();
    suffix.is_some() && media_types.iter().any(|it| it.is_suffix() && Some(it.as_str()) == suffix)
}

fn range_match(media_types: &[MediaType], declared: &ContentType) -> bool {
    media_types.iter().any(|it| it.is_range() && Some(it.as_str()) == declared.top_level())
}

pub(super) fn push(steps: &mut Vec<Step>, step: Step) {
    if steps.iter().all(|earlier| earlier.codec != step.codec) {
        steps.push(step);
    }
}

/// The texts seen last. Only well-formed ones are added, and a new one replaces the oldest, so that no producer can make it
/// grow or keep others out.
#[derive(Debug, Default)]
pub(super) struct Cache(Mutex<Ring>);

#[derive(Debug, Default)]
struct Ring {
    entries: Vec<Arc<Resolved>>,
    next: usize,
}

impl Cache {
    const MAX_TEXTS: usize = 32;

    fn find(&self, text: &str) -> Option<Arc<Resolved>> {
        let ring = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ring.entries.iter().find(|known| known.content_type.as_str() == text).cloned()
    }

    fn keep(&self, resolved: &Arc<Resolved>) {
        let mut ring = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let next = ring.next;
        match ring.entries.get_mut(next) {
            Some(oldest) => *oldest = Arc::clone(resolved),
            None => ring.entries.push(Arc::clone(resolved)),
        }
        ring.next = (next + 1) % Self::MAX_TEXTS;
    }
}

#[cfg(test)]
mod tests {
    use crate::{Codecs, Text};

    /// Rules: I-30.
    #[test]
    fn no_text_makes_the_cache_grow() {
        let codecs = Codecs::builder().with(Text).build().unwrap();
        let cached = || codecs.inner.rules.cache.0.lock().unwrap().entries.len();
        for text in ["", " ", "text", "text/\u{e9}", "text/plain (", &"a/".repeat(1 << 19), "text/plain"] {
            let _ = codecs.decode::<String>(Some(text), b"text");
        }
        assert_eq!(cached(), 0);
        for number in 0..1_000 {
            codecs.decode::<String>(Some(&format!("text/x-{number}")), b"text").unwrap();
        }
        assert_eq!(cached(), 32);
    }
}
