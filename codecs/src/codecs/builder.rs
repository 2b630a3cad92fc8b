use std::{borrow::Cow, sync::Arc};

use super::{
    Codecs, ConfigError, Inner, Observe, Policy,
    check::{self, Settings},
    observe::Observer,
};
use crate::{And, Codec, CodecSet, Limits};

/// Collects codecs and policies for a [`Codecs`].
///
/// By default a missing ContentType means the first codec, then the chain if there is one. The other four cases mean the chain
/// if there is one, and otherwise a refusal. There is no chain unless [`fallback`](Self::fallback) names one.
#[derive(Clone, Debug)]
#[must_use]
pub struct CodecsBuilder<S> {
    set: S,
    settings: Settings,
    observer: Option<Observer>,
}

impl<S: CodecSet> CodecsBuilder<S> {
    pub(super) fn new(set: S) -> Self {
        Self { set, settings: Settings::default(), observer: None }
    }

    /// Adds a codec. The first one writes.
    pub fn with<C: Codec>(self, codec: C) -> CodecsBuilder<And<S, C>> {
        CodecsBuilder { set: And(self.set, codec), settings: self.settings, observer: self.observer }
    }

    /// Sets the chain: the codecs, by name, that try in this order where a policy uses it. Self-describing codecs come first,
    /// then at most one positional codec that [`allow_positional`](Self::allow_positional) names, then opaque ones.
    pub fn fallback<N: Into<Cow<'static, str>>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.settings.chain = names.into_iter().map(Into::into).collect();
        self
    }

    /// Sets how many codecs the chain may have. Default 4, at most 8.
    pub fn max_fallbacks(mut self, max: usize) -> Self {
        self.settings.max_chain = max;
        self
    }

    /// Permits a positional codec in the fallback chain, which reads bodies that do not declare it. Its bytes do not
    /// identify themselves: bytes of another format may be read as a wrong value.
    pub fn allow_positional(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.settings.positional.push(name.into());
        self
    }

    /// Sets the policy for an absent or blank ContentType.
    pub fn on_missing(mut self, policy: Policy) -> Self {
        self.settings.missing = Some(policy);
        self
    }

    /// Sets the policy for a declared type that no codec reads.
    pub fn on_unknown(mut self, policy: Policy) -> Self {
        self.settings.unknown = Some(policy);
        self
    }

    /// Sets the policy for a declared text that is not a media type.
    pub fn on_malformed(mut self, policy: Policy) -> Self {
        self.settings.malformed = Some(policy);
        self
    }

    /// Sets the policy after the codecs that read the declared type have failed.
    pub fn on_failed(mut self, policy: Policy) -> Self {
        self.settings.failed = Some(policy);
        self
    }

    /// Sets the policy for a declared type that is not on the list of [`allow`](Self::allow).
    pub fn on_not_allowed(mut self, policy: Policy) -> Self {
        self.settings.not_allowed = Some(policy);
        self
    }

    /// Sets the only media types that may be declared: `application/json`, every type with a suffix as `*/*+json`, or every
    /// subtype as `text/*`. Parameters do not count. Without a list every type may be declared. An entry is text or a
    /// [`Mime`](mime::Mime).
    ///
    /// With a fallback chain, the codecs of the chain try a body of another type. To refuse it instead, call
    /// [`on_not_allowed`](Self::on_not_allowed) with [`Policy::Reject`].
    pub fn allow<N: AsRef<str>>(mut self, media_types: impl IntoIterator<Item = N>) -> Self {
        self.settings.allow = Some(media_types.into_iter().map(|entry| entry.as_ref().to_owned()).collect());
        self
    }

    /// Sets the limits of decoding one body. Values above their maximum are clamped to it.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.settings.limits = limits.bytes(limits.bytes).depth(limits.depth).elements(limits.elements);
        self
    }

    /// Sets an observer of how each body was read. An observed set looks up every declared type, which one without an observer
    /// does for few: some hundred instructions for each body.
    pub fn observe(mut self, observe: impl Observe) -> Self {
        self.observer = Some(Observer::new(observe));
        self
    }

    /// Checks every rule of a set and builds it. The error names the broken rule and the change to make.
    pub fn build(self) -> Result<Codecs<S>, ConfigError> {
        let members = (0..S::LEN).filter_map(|index| self.set.info(index)).collect();
        let rules = check::rules(members, &self.settings)?;
        let (hot, missing) = if self.observer.is_some() {
            (0, None)
        } else {
            (rules.hot(), rules.missing.steps.first().map(|step| (step.codec, step.chosen)))
        };
        let inner = Inner { set: self.set, limits: rules.limits, hot, missing, rules, observer: self.observer };
        Ok(Codecs { inner: Arc::new(inner) })
    }
}
