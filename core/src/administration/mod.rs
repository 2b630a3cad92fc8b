//! Entities of a broker: queues, topics and subscriptions, their settings with their ranges, and the trait that creates them.

mod authorization_rule;
mod counts;
mod entity;
mod manage;
mod metadata;
mod queue;
mod settings;
mod subscription;
mod topic;
mod unsupported;

pub use self::{
    authorization_rule::AuthorizationRule,
    counts::Counts,
    entity::{Entity, EntityKind},
    manage::Administration,
    metadata::Metadata,
    queue::QueueSettings,
    settings::EntitySettings,
    subscription::SubscriptionSettings,
    topic::TopicSettings,
    unsupported::unsupported_setting,
};

/// The directions in which an entity is open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Status {
    /// Both.
    #[default]
    Active,
    /// Neither: a send, a receive, a settlement and a renewal return
    /// [`EntityDisabled`](crate::transport::ErrorKind::EntityDisabled).
    Disabled,
    /// Receives are permitted, sends are refused. On a subscription this is the same as [`Status::Active`], as nothing is
    /// sent there.
    SendDisabled,
    /// Sends are permitted, receives are refused. Nothing is received or settled; locks run out as usual.
    ReceiveDisabled,
}

impl Status {
    /// Returns whether messages can be sent.
    #[must_use]
    pub fn allows_send(self) -> bool {
        matches!(self, Self::Active | Self::ReceiveDisabled)
    }

    /// Returns whether messages can be received.
    #[must_use]
    pub fn allows_receive(self) -> bool {
        matches!(self, Self::Active | Self::SendDisabled)
    }
}

/// Setters. A field that may be `None` is given its value: `=> Some`.
macro_rules! setters {
    ($($field:ident: $type:ty $(=> $wrap:path)?;)*) => {$(
        #[doc = concat!("Sets `", stringify!($field), "`.")]
        #[must_use]
        pub fn $field(mut self, value: $type) -> Self {
            self.$field = $($wrap)? (value);
            self
        }
    )*};
}
use setters;

#[cfg(test)]
mod tests {
    use super::Status;

    #[test]
    fn each_status_closes_its_directions() {
        for (status, sends, receives) in [
            (Status::Active, true, true),
            (Status::Disabled, false, false),
            (Status::SendDisabled, false, true),
            (Status::ReceiveDisabled, true, false),
        ] {
            assert_eq!((status.allows_send(), status.allows_receive()), (sends, receives), "{status:?}");
        }
    }
}
