//! The rules of a set, checked once, and the turns of its policies.

use std::borrow::Cow;

use super::{
    ConfigError, ConfigErrorKind as Kind, Policy,
    allow::Allowed,
    rules::{Cache, Route, Rules, Step, media_type_match, push},
    trail,
};
use crate::{
    Chosen, CodecInfo, ContentType, Format, Limits, MediaType,
    content_type::{excerpt, is_name},
};

const MAX_CODECS: usize = 32;
const MAX_CHAIN: usize = 8;

#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) chain: Vec<Cow<'static, str>>,
    pub(super) max_chain: usize,
    pub(super) positional: Vec<Cow<'static, str>>,
    pub(super) missing: Option<Policy>,
    pub(super) unknown: Option<Policy>,
    pub(super) malformed: Option<Policy>,
    pub(super) failed: Option<Policy>,
    pub(super) not_allowed: Option<Policy>,
    pub(super) allow: Option<Vec<String>>,
    pub(super) limits: Limits,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            chain: Vec::new(),
            max_chain: 4,
            positional: Vec::new(),
            missing: None,
            unknown: None,
            malformed: None,
            failed: None,
            not_allowed: None,
            allow: None,
            limits: Limits::default(),
        }
    }
}

pub(super) fn rules(members: Box<[CodecInfo]>, settings: &Settings) -> Result<Rules, ConfigError> {
    check_members(&members)?;
    let checker = Checker { members: &members, settings };
    for name in &settings.positional {
        checker.find(name, "allow_positional")?;
    }
    let chain = checker.chain()?;
    let route = |case, policy| checker.route(case, policy, &chain);
    let missing = route(Case::Missing, settings.missing)?;
    let unknown = route(Case::Unknown, settings.unknown)?;
    let malformed = route(Case::Malformed, settings.malformed)?;
    let failed = route(Case::Failed, settings.failed)?;
    let not_allowed = route(Case::NotAllowed, settings.not_allowed)?;
    // `not_allowed` counts only where something can be refused by a list.
    let reaches = [&missing, &unknown, &malformed, &failed].into_iter().any(|route| route.policy.chain())
        || (settings.allow.is_some() && not_allowed.policy.chain());
    if !chain.is_empty() && !reaches {
        return Err(ConfigError::new(
            Kind::ChainUnreachable,
            "no policy uses the chain, so it is never reached: set one to `Policy::Chain`, or drop `fallback`",
        ));
    }
    let allowed = checker.allowed()?;
    let (chain, limits) = (chain.into(), settings.limits);
    let cache = Cache::default();
    Ok(Rules { members, chain, allowed, limits, missing, unknown, malformed, failed, not_allowed, cache })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    Missing,
    Unknown,
    Malformed,
    Failed,
    NotAllowed,
}

impl Case {
    const fn setter(self) -> &'static str {
        match self {
            Self::Missing => "on_missing",
            Self::Unknown => "on_unknown",
            Self::Malformed => "on_malformed",
            Self::Failed => "on_failed",
            Self::NotAllowed => "on_not_allowed",
        }
    }
}

struct Checker<'a> {
    members: &'a [CodecInfo],
    settings: &'a Settings,
}

impl Checker<'_> {
    fn chain(&self) -> Result<Vec<usize>, ConfigError> {
        let Settings { chain: names, max_chain, .. } = self.settings;
        if *max_chain > MAX_CHAIN {
            return Err(ConfigError::new(
                Kind::ChainTooLong,
                format!("`max_fallbacks({max_chain})` is over the maximum: a chain has at most {MAX_CHAIN} codecs"),
            ));
        }
        if names.len() > *max_chain {
            return Err(ConfigError::new(
                Kind::ChainTooLong,
                format!(
                    "the chain has {} codecs and may have {max_chain}: name fewer, or raise `max_fallbacks`, which goes up to \
                     {MAX_CHAIN}",
                    names.len()
                ),
            ));
        }
        let mut chain = Vec::new();
        for name in names {
            let codec = self.find(name, "fallback")?;
            if chain.contains(&codec) {
                return Err(ConfigError::new(
                    Kind::DuplicateInChain,
                    format!("the chain names `{name}` twice, and a codec tries once: name it once"),
                ));
            }
            self.check_positional(codec, "the chain")?;
            chain.push(codec);
        }
        self.check_order(&chain, "the chain")?;
        Ok(chain)
    }

    fn route(&self, case: Case, policy: Option<Policy>, chain: &[usize]) -> Result<Route, ConfigError> {
        let (policy, setter) = match policy {
            Some(policy) => (policy, format!("`{}`", case.setter())),
            None => (self.default_policy(case, chain), format!("`{}`, which is not set,", case.setter())),
        };
        if policy.chain() && chain.is_empty() {
            return Err(ConfigError::new(
                Kind::NoChain,
                format!("{setter} uses the chain, and there is none: name its codecs with `fallback`"),
            ));
        }
        let mut steps = Vec::new();
        if let Some(name) = policy.codec() {
            let codec = self.find(name, case.setter())?;
            // A body without a ContentType declares no other format, so naming a codec for it is the opt-in.
            if case != Case::Missing {
                self.check_positional(codec, &setter)?;
            }
            push(&mut steps, Step { codec, chosen: Chosen::Default });
        }
        if policy.chain() {
            for codec in chain {
                push(&mut steps, Step { codec: *codec, chosen: Chosen::Fallback });
            }
            let order: Vec<usize> = steps.iter().map(|step| step.codec).collect();
            self.check_order(&order, &setter)?;
        }
        Ok(Route { policy, steps: steps.into() })
    }

    fn default_policy(&self, case: Case, chain: &[usize]) -> Policy {
        let first = self.members[0].name;
        match (case, chain.is_empty()) {
            (Case::Missing, true) => Policy::Codec(first),
            (Case::Missing, false) => Policy::CodecThenChain(first),
            (_, true) => Policy::Reject,
            (_, false) => Policy::Chain,
        }
    }

    fn find(&self, name: &str, setter: &str) -> Result<usize, ConfigError> {
        self.members.iter().position(|member| member.name == name).ok_or_else(|| {
            let names: Vec<_> = self.members.iter().map(|member| member.name).collect();
            ConfigError::new(
                Kind::UnknownCodec,
                format!(
                    "`{setter}` names `{}`, which is not in the set: add that codec, or name one of {}",
                    excerpt(name),
                    names.join(", ")
                ),
            )
        })
    }

    fn check_positional(&self, codec: usize, place: &str) -> Result<(), ConfigError> {
        let CodecInfo { name, format, .. } = self.members[codec];
        if format != Format::Positional || self.settings.positional.iter().any(|allowed| allowed == name) {
            return Ok(());
        }
        Err(ConfigError::new(
            Kind::PositionalNotAllowed,
            format!(
                "{place} lets `{name}` read bodies that do not declare it, and a positional format may take them for its own: \
                 leave it out, or accept that with `allow_positional(\"{name}\")`"
            ),
        ))
    }

    /// Checks the order: a codec that accepts more comes later. Otherwise the codecs after it are never reached, or get bodies
    /// too late.
    fn check_order(&self, order: &[usize], place: &str) -> Result<(), ConfigError> {
        for pair in order.windows(2) {
            let [before, after] = [&self.members[pair[0]], &self.members[pair[1]]];
            if before.format == Format::Positional && after.format == Format::Positional {
                return Err(ConfigError::new(
                    Kind::SecondPositional,
                    format!(
                        "{place} tries `{}` and `{}`, which read each other's bytes: keep one positional codec",
                        before.name, after.name
                    ),
                ));
            }
            if rank(before.format) > rank(after.format) {
                return Err(ConfigError::new(
                    Kind::ChainOrder,
                    format!(
                        "{place} tries `{}`, which may take any bytes for its own, before `{}`: put self-describing codecs \
                         first, then a positional one, then opaque ones",
                        before.name, after.name
                    ),
                ));
            }
        }
        Ok(())
    }

    fn allowed(&self) -> Result<Allowed, ConfigError> {
        let Some(entries) = &self.settings.allow else {
            return Ok(Allowed::default());
        };
        if entries.is_empty() {
            return Err(ConfigError::new(
                Kind::InvalidAllowList,
                "`allow` is an empty list, which refuses every type: name the media types that may be declared",
            ));
        }
        Allowed::of(entries).map_err(|entry| {
            ConfigError::new(
                Kind::InvalidAllowList,
                format!(
                    "`allow` names `{}`, which is no media type: write `application/json`, `*/*+json` or `text/*`, without \
                     parameters",
                    excerpt(entry)
                ),
            )
        })
    }
}

const fn rank(format: Format) -> u8 {
    match format {
        Format::SelfDescribing => 0,
        Format::Positional => 1,
        Format::Opaque => 2,
    }
}

fn check_members(members: &[CodecInfo]) -> Result<(), ConfigError> {
    if members.is_empty() {
        return Err(ConfigError::new(Kind::NoCodec, "the set is empty: add a codec with `with`"));
    }
    if members.len() > MAX_CODECS {
        let mend = format!("the set has {} codecs: keep at most {MAX_CODECS}", members.len());
        return Err(ConfigError::new(Kind::TooManyCodecs, mend));
    }
    for (at, member) in members.iter().enumerate() {
        check_name(member.name)?;
        if members[..at].iter().any(|earlier| earlier.name == member.name) {
            let mend = format!("two codecs are named `{}`: give one of them another name", member.name);
            return Err(ConfigError::new(Kind::DuplicateName, mend));
        }
        check_media_types(member)?;
    }
    let claims: Vec<_> =
        members.iter().flat_map(|member| member.media_types.iter().map(move |it| (member.name, it))).collect();
    for (at, (name, media_type)) in claims.iter().enumerate() {
        let Some((other, _)) = claims[..at].iter().find(|(_, earlier)| same(earlier, media_type)) else { continue };
        return Err(ConfigError::new(
            Kind::DuplicateMediaType,
            format!("`{other}` and `{name}` both read `{media_type}`: leave it to one of them"),
        ));
    }
    Ok(())
}

fn check_name(name: &'static str) -> Result<(), ConfigError> {
    if trail::is_field(name) {
        return Ok(());
    }
    Err(ConfigError::new(
        Kind::InvalidName,
        format!("`{}` is no codec's name: use 1 to 32 letters, digits, `-`, `_` and `.`", excerpt(name)),
    ))
}

fn check_media_types(member: &CodecInfo) -> Result<(), ConfigError> {
    let CodecInfo { name, media_types, content_type, .. } = *member;
    if media_types.is_empty() {
        let mend = format!("`{name}` reads no media type: let `media_types` name at least one");
        return Err(ConfigError::new(Kind::InvalidMediaType, mend));
    }
    if let Some(media_type) = media_types.iter().find(|media_type| !is_canonical(media_type)) {
        return Err(ConfigError::new(
            Kind::InvalidMediaType,
            format!(
                "`{name}` reads `{media_type}`, which is not in canonical form: write it in lower case and without spaces"
            ),
        ));
    }
    let written = ContentType::parse(content_type);
    if written.is_malformed() || media_type_match(media_types, &written).is_none() {
        return Err(ConfigError::new(
            Kind::UnreadContentType,
            format!("`{name}` writes `{written}` and does not read it: add that to its `media_types`"),
        ));
    }
    Ok(())
}

/// Returns whether a media type is canonical. The comparison of bytes on the hot path relies on this.
fn is_canonical(media_type: &MediaType) -> bool {
    let text = media_type.as_str();
    if media_type.is_exact() {
        let parsed = ContentType::parse(text);
        return !parsed.is_malformed() && parsed.to_string() == text;
    }
    is_name(text) && !text.contains('+') && !text.bytes().any(|byte| byte.is_ascii_uppercase())
}

fn same(one: &MediaType, other: &MediaType) -> bool {
    if one.is_exact() && other.is_exact() {
        return ContentType::parse(one.as_str()) == ContentType::parse(other.as_str());
    }
    one == other
}
