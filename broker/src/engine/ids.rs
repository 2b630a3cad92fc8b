/// The name of an entity in the engine. Of two the older is the lesser, and none is assigned twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StoreId {
    pub(crate) serial: u64,
    pub(crate) index: u32,
}

/// The parts of an entity: main, dead letters, and messages that could not be transferred. They are in one store, as
/// a dead letter moves from one to another in one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    Main,
    DeadLetter,
    TransferDeadLetter,
}

impl Part {
    /// The lane of a part that has only one.
    pub(super) fn lane(self) -> u32 {
        self as u32
    }
}
