use tokio::time::Instant;

/// Since when a connection has no link, and when to look again.
pub(super) struct Idle {
    /// None while there is a link.
    pub(super) alone_since: Option<Instant>,
    /// Since when the client needs a token and has none.
    pub(super) unauthorized_since: Option<Instant>,
    /// Whether there has been a link.
    pub(super) was_used: bool,
    /// When a timer is due. It may be early.
    pub(super) due: Instant,
}

impl Idle {
    pub(super) fn new(now: Instant) -> Self {
        Self { alone_since: Some(now), unauthorized_since: None, was_used: false, due: now }
    }

    /// There is a link.
    pub(super) fn used(&mut self) {
        (self.alone_since, self.was_used) = (None, true);
    }
}
