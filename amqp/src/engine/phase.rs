/// What is expected of the peer.
#[derive(Debug)]
pub(super) enum Phase {
    /// A protocol header, before the authentication or after it.
    Header {
        authenticated: bool,
    },
    Sasl(SaslState),
    Frames,
    Closed,
}

/// Which SASL frame comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SaslState {
    /// A client waits for the mechanisms.
    Mechanisms,
    /// A server waits for the client's selection.
    Init,
    /// A server waits for its application.
    Decision,
    /// A server waits for the response to a challenge.
    Response,
    /// A client waits for a challenge or the outcome.
    Outcome,
    /// A client waits for its application.
    Answer,
}

impl SaslState {
    /// Whether the application has to act before the next frame is read.
    pub(super) const fn is_blocked(self) -> bool {
        matches!(self, Self::Decision | Self::Answer)
    }
}
