//! Identifiers that the engine hands to the application.

use std::fmt;

/// A session of one connection. It stays unique after the session has ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId {
    /// The channel on which this end sends.
    pub(super) channel: u16,
    /// Tells sessions on the same channel apart.
    pub(super) serial: u32,
}

impl SessionId {
    /// Returns the channel on which this end sends, 0 to 65,535.
    #[must_use]
    pub const fn channel(self) -> u16 {
        self.channel
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionId({}.{})", self.channel, self.serial)
    }
}

/// A link of one connection. It stays unique after the link was detached.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId {
    pub(super) session: SessionId,
    /// The handle by which this end names the link.
    pub(super) handle: u32,
    /// Tells links on the same handle apart.
    pub(super) serial: u32,
}

impl LinkId {
    /// Returns the session of the link.
    #[must_use]
    pub const fn session(self) -> SessionId {
        self.session
    }

    /// Returns the handle by which this end names the link in its frames.
    #[must_use]
    pub const fn handle(self) -> u32 {
        self.handle
    }
}

impl fmt::Debug for LinkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LinkId({}.{}/{}.{})", self.session.channel, self.session.serial, self.handle, self.serial)
    }
}

/// A delivery of one session, in one direction. Ids ascend in the order of the delivery numbers of the peer.
///
/// Two deliveries of a peer that uses a delivery number twice have different ids.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeliveryId {
    /// The delivery number, extended to 64 bits so that it does not wrap around.
    pub(super) sequence: u64,
    /// Tells deliveries with the same number apart.
    pub(super) copy: u32,
}

impl DeliveryId {
    /// Returns the delivery number in frames, `delivery-id`.
    #[must_use]
    pub const fn number(self) -> u32 {
        #[allow(clippy::cast_possible_truncation, reason = "the lower half is the number")]
        let number = self.sequence as u32;
        number
    }
}

impl fmt::Debug for DeliveryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeliveryId({})", self.number())
    }
}
