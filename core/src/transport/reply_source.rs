use super::Receiver;

/// A receiver of replies that has an address. `ReplyQueue` and `ReplySession` of `consign::rpc` are the usual ones.
pub trait ReplySource: Receiver + 'static {
    /// Returns the `ReplyTo` of a request.
    fn address(&self) -> &str;

    /// Returns the `ReplyToSessionId` of a request, if a session separates the replies.
    fn session_id(&self) -> Option<&str>;

    /// Returns whether there is no other receiver at this address.
    fn is_exclusive(&self) -> bool;

    /// Returns whether a reply can arrive while [`poll_receive`](Receiver::poll_receive) is pending. A source that has to
    /// lock something first cannot receive before that.
    #[doc(hidden)]
    fn is_receiving(&self) -> bool {
        true
    }
}
