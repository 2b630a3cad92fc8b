/// Behaviours of the hosted service that differ from this broker, to test that an application tolerates them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Quirks {
    /// An expired message stays, and can be peeked, until a receiver receives from its entity.
    pub lazy_expiry: bool,
    /// Cancelling a message that became active reports success, and the message is delivered all the same.
    pub race_like_hosted: bool,
    /// What a server does with the locks of a connection that is lost, and of a link that is detached.
    pub on_disconnect: OnDisconnect,
    /// Whether a delivery whose lock ends by [`OnDisconnect::Release`] counts as failed. It does not by default: a message that
    /// crashes its consumer is then redelivered without end.
    pub count_on_disconnect: bool,
}

/// What a server does with the locks of messages when their receiver's connection is lost.
///
/// The lock of a session ends in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDisconnect {
    /// It releases them at once.
    #[default]
    Release,
    /// They hold until they run out, and count then. A client that has reconnected can still settle by lock token.
    HoldUntilExpiry,
}

impl Quirks {
    /// Sets `lazy_expiry`.
    #[must_use]
    pub fn lazy_expiry(mut self, value: bool) -> Self {
        self.lazy_expiry = value;
        self
    }

    /// Sets `race_like_hosted`.
    #[must_use]
    pub fn race_like_hosted(mut self, value: bool) -> Self {
        self.race_like_hosted = value;
        self
    }

    /// Sets `on_disconnect`.
    #[must_use]
    pub fn on_disconnect(mut self, value: OnDisconnect) -> Self {
        self.on_disconnect = value;
        self
    }

    /// Sets `count_on_disconnect`.
    #[must_use]
    pub fn count_on_disconnect(mut self, value: bool) -> Self {
        self.count_on_disconnect = value;
        self
    }
}
