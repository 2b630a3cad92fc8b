//! The settings of entities, with their ranges.

mod queue;
mod quirks;
mod subscription;
mod topic;

pub use self::{queue::QueueSettings, quirks::Quirks, subscription::SubscriptionSettings, topic::TopicSettings};

/// The directions in which an entity is open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Status {
    /// Both.
    #[default]
    Active,
    /// Neither: a send, a receive, a settlement and a renewal return
    /// [`EntityDisabled`](crate::transport::ErrorKind::EntityDisabled).
    Disabled,
    /// It can be received from. On a subscription this is the same as [`Status::Active`], as nothing is sent there.
    SendDisabled,
    /// It can be sent to. Nothing is received or settled; locks run out as usual.
    ReceiveDisabled,
}

impl Status {
    pub(super) fn allows_send(self) -> bool {
        matches!(self, Self::Active | Self::ReceiveDisabled)
    }

    pub(super) fn allows_receive(self) -> bool {
        matches!(self, Self::Active | Self::SendDisabled)
    }
}

/// `with_` setters. A field that may be `None` is given its value: `=> Some`.
macro_rules! setters {
    ($($with:ident, $field:ident: $type:ty $(=> $wrap:path)?;)*) => {$(
        #[doc = concat!("Sets `", stringify!($field), "`.")]
        #[must_use]
        pub fn $with(mut self, value: $type) -> Self {
            self.$field = $($wrap)? (value);
            self
        }
    )*};
}
use setters;
