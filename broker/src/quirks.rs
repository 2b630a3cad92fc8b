/// Behaviours of the hosted service that differ from this broker, to test that an application tolerates them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Quirks {
    /// An expired message stays, and can be peeked, until a receiver receives from its entity.
    pub lazy_expiry: bool,
    /// Cancelling a message that became active reports success, and the message is delivered all the same.
    pub race_like_hosted: bool,
}

impl Quirks {
    /// Sets `lazy_expiry`.
    #[must_use]
    pub fn with_lazy_expiry(mut self, value: bool) -> Self {
        self.lazy_expiry = value;
        self
    }

    /// Sets `race_like_hosted`.
    #[must_use]
    pub fn with_race_like_hosted(mut self, value: bool) -> Self {
        self.race_like_hosted = value;
        self
    }
}
