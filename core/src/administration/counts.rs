/// The number of messages of an entity, by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Messages that can be received.
    pub active: usize,
    /// Messages that a receiver holds. A transport that cannot tell them apart counts them as active.
    pub locked: usize,
    /// Messages that can only be received by their sequence number.
    pub deferred: usize,
    /// Messages that wait for their enqueue time.
    pub scheduled: usize,
    /// Messages in the dead-letter sub-queue, in any state. On a sub-queue itself, 0.
    pub dead_lettered: usize,
    /// Messages in the transfer dead-letter sub-queue, in any state. On a sub-queue itself, and on a broker without one, 0.
    pub transfer_dead_lettered: usize,
    /// Bytes that the entity counts against its size: messages in every state, dead letters, and the state of sessions. 0 on a
    /// broker that does not count them.
    pub size: u64,
}
