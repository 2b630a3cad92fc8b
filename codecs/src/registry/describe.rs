use std::fmt;

use super::rules::{Route, Rules};
use crate::Format;

/// What a set of codecs decides, as text for people: every codec, what happens in each of the five cases, the chain, what is
/// allowed and the limits. The text is stable: one set has one text.
pub struct Description<'a>(pub(super) &'a Rules);

impl fmt::Display for Description<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rules = self.0;
        writeln!(f, "codecs")?;
        for member in &rules.members {
            write!(f, "  {}: {}, writes {}, reads", member.name, format_name(member.format), member.content_type)?;
            for (at, media_type) in member.media_types.iter().enumerate() {
                write!(f, "{}{media_type}", if at == 0 { " " } else { ", " })?;
            }
            writeln!(f)?;
        }
        writeln!(f, "ContentType")?;
        self.route(f, "missing", &rules.missing)?;
        self.route(f, "unknown", &rules.unknown)?;
        self.route(f, "malformed", &rules.malformed)?;
        self.route(f, "failed", &rules.failed)?;
        self.route(f, "not allowed", &rules.not_allowed)?;
        write!(f, "chain: ")?;
        if rules.chain.is_empty() {
            f.write_str("none")?;
        }
        for (at, codec) in rules.chain.iter().enumerate() {
            write!(f, "{}{}", if at == 0 { "" } else { ", " }, rules.members[*codec].name)?;
        }
        writeln!(f, "\nallowed: {}", rules.allowed)?;
        let limits = rules.limits;
        write!(f, "limits: {} bytes, depth {}, {} elements", limits.bytes, limits.depth, limits.elements)
    }
}

impl Description<'_> {
    fn route(&self, f: &mut fmt::Formatter<'_>, case: &str, route: &Route) -> fmt::Result {
        write!(f, "  {case}: ")?;
        if route.steps.is_empty() {
            return writeln!(f, "reject");
        }
        for (at, step) in route.steps.iter().enumerate() {
            let separator = if at == 0 { "" } else { ", then " };
            write!(f, "{separator}{} ({})", self.0.members[step.codec].name, step.chosen)?;
        }
        writeln!(f)
    }
}

const fn format_name(format: Format) -> &'static str {
    match format {
        Format::SelfDescribing => "self-describing",
        Format::Positional => "positional",
        Format::Opaque => "opaque",
    }
}

impl fmt::Debug for Description<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
