/// What the hosted service does otherwise than this broker, so that a test can see whether an application bears it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Quirks {
    /// An expired message stays until somebody receives from its entity, and can be peeked so long.
    pub lazy_expiry: bool,
    /// To cancel a message that became active reports success, and the message is delivered all the same.
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
