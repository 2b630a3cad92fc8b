use std::time::Duration;

/// The state of the store when a broker was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovery {
    /// Messages in every state.
    pub messages: u64,
    /// Records of all kinds.
    pub records: u64,
    /// Bytes of all records.
    pub bytes: u64,
    /// How long it took, by the broker's clock.
    pub took: Duration,
}
