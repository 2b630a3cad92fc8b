use std::borrow::Cow;

use bytes::Bytes;

use super::Value;
use crate::time::Timestamp;

/// Properties that a broker stores and returns unchanged, and never reads.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct PassThrough {
    /// `properties.user-id`.
    pub user_id: Option<Bytes>,
    /// `properties.content-encoding`.
    pub content_encoding: Option<Cow<'static, str>>,
    /// `properties.group-sequence`.
    pub group_sequence: Option<u32>,
    /// `properties.creation-time`.
    pub creation_time: Option<Timestamp>,
    /// `header.durable`.
    pub durable: Option<bool>,
    /// `header.priority`.
    pub priority: Option<u8>,
    /// `header.first-acquirer`.
    pub first_acquirer: Option<bool>,
    /// A request for the message to be on disk before it is accepted, which an HTTP sender may make.
    pub force_persistence: bool,
    /// Message annotations that the library does not define, in their order.
    pub annotations: Vec<(Cow<'static, str>, Value)>,
    /// The footer, in its order.
    pub footer: Vec<(Cow<'static, str>, Value)>,
}

impl PassThrough {
    pub(super) fn size(&self) -> usize {
        let pairs = self.annotations.iter().chain(&self.footer);
        self.user_id.as_ref().map_or(0, Bytes::len)
            + self.content_encoding.as_ref().map_or(0, |text| text.len())
            + pairs.map(|(key, value)| key.len() + value.size()).sum::<usize>()
    }
}
