use std::fmt;

use serde::Serialize;

use super::rules::{Route, Rules};
use crate::{ContentType, Format, MediaType};

/// The decisions of a set of codecs, as readable text: every codec, the policy of each of the five cases, the chain, the
/// allowed types and the limits. The text is stable: one set has one text. [`CodecsDescription::table`] is the same as data.
pub struct CodecsDescription<'a>(pub(super) &'a Rules);

/// The decisions of a set of codecs, as data. `Display` is that of [`CodecsDescription`].
///
/// Each case is the list of codecs that try, in order, as `json (default)`; an empty one is a refusal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DecisionTable {
    /// The codecs. The first one writes.
    pub codecs: Vec<CodecEntry>,
    /// The codecs that try if no ContentType is declared.
    pub missing: Vec<String>,
    /// The codecs that try if no codec reads the declared type.
    pub unknown: Vec<String>,
    /// The codecs that try if the declared text is not a media type.
    pub malformed: Vec<String>,
    /// The codecs that try after those of the declared type have failed.
    pub failed: Vec<String>,
    /// The codecs that try if the declared type is not on the list.
    pub not_allowed: Vec<String>,
    /// The chain.
    pub chain: Vec<&'static str>,
    /// The media types that may be declared.
    pub allowed: String,
    /// Bytes that a body may have.
    pub max_bytes: usize,
    /// How deep its values may be nested.
    pub max_depth: usize,
    /// Elements that all containers of a body may have together.
    pub max_elements: usize,
}

/// One codec of a [`DecisionTable`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CodecEntry {
    /// Its name.
    pub name: &'static str,
    /// `self-describing`, `positional` or `opaque`.
    pub format: &'static str,
    /// The ContentType that it writes.
    pub writes: &'static str,
    /// The media types that it reads.
    pub reads: Vec<String>,
    /// Those of them that may be declared: [`CodecsBuilder::allow`](crate::CodecsBuilder::allow) allows them, or
    /// [`on_not_allowed`](crate::CodecsBuilder::on_not_allowed) names the codec. `application/*+json` are types of both parts.
    pub accepts: Vec<String>,
    /// Whether the ContentType that it writes may be declared.
    pub accepts_own: bool,
}

impl CodecsDescription<'_> {
    /// Returns the same as data, independent of the set.
    #[must_use]
    pub fn table(&self) -> DecisionTable {
        let Rules { members, limits, .. } = self.0;
        let codecs = members.iter().enumerate().map(|(index, member)| {
            let reads: Vec<_> = member.media_types.iter().map(MediaType::to_string).collect();
            let is_unlisted_read = self.0.not_allowed.steps.iter().any(|step| step.codec == index);
            let mut accepts = Vec::new();
            for types in member.media_types.iter().filter(|_| !is_unlisted_read) {
                for accepted in self.0.allowed.allowed_of(types) {
                    if !accepts.contains(&accepted) {
                        accepts.push(accepted);
                    }
                }
            }
            CodecEntry {
                name: member.name,
                format: format_name(member.format),
                writes: member.content_type,
                accepts: if is_unlisted_read { reads.clone() } else { accepts },
                accepts_own: is_unlisted_read || self.0.allowed.allows(&ContentType::parse(member.content_type)),
                reads,
            }
        });
        let route = |route: &Route| -> Vec<_> {
            route.steps.iter().map(|step| format!("{} ({})", members[step.codec].name, step.chosen)).collect()
        };
        DecisionTable {
            codecs: codecs.collect(),
            missing: route(&self.0.missing),
            unknown: route(&self.0.unknown),
            malformed: route(&self.0.malformed),
            failed: route(&self.0.failed),
            not_allowed: route(&self.0.not_allowed),
            chain: self.0.chain.iter().map(|codec| members[*codec].name).collect(),
            allowed: self.0.allowed.to_string(),
            max_bytes: limits.bytes,
            max_depth: limits.depth,
            max_elements: limits.elements,
        }
    }
}

impl fmt::Display for CodecsDescription<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.table(), f)
    }
}

impl fmt::Display for DecisionTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "codecs")?;
        for codec in &self.codecs {
            let CodecEntry { name, format, writes, reads, .. } = codec;
            writeln!(f, "  {name}: {format}, writes {writes}, reads {}", reads.join(", "))?;
        }
        writeln!(f, "ContentType")?;
        let cases = [
            ("missing", &self.missing),
            ("unknown", &self.unknown),
            ("malformed", &self.malformed),
            ("failed", &self.failed),
            ("not allowed", &self.not_allowed),
        ];
        for (case, codecs) in cases {
            let decided = if codecs.is_empty() { "reject".to_owned() } else { codecs.join(", then ") };
            writeln!(f, "  {case}: {decided}")?;
        }
        let chain = if self.chain.is_empty() { "none".to_owned() } else { self.chain.join(", ") };
        writeln!(f, "chain: {chain}")?;
        writeln!(f, "allowed: {}", self.allowed)?;
        write!(f, "limits: {} bytes, depth {}, {} elements", self.max_bytes, self.max_depth, self.max_elements)
    }
}

const fn format_name(format: Format) -> &'static str {
    match format {
        Format::SelfDescribing => "self-describing",
        Format::Positional => "positional",
        Format::Opaque => "opaque",
    }
}

impl fmt::Debug for CodecsDescription<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
