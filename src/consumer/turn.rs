use tokio::time::Instant;

/// One poll of the driver. Its time is read once, and only if something is left waiting.
#[derive(Default)]
pub(super) struct Turn {
    now: Option<Instant>,
}

impl Turn {
    pub(super) fn now(&mut self) -> Instant {
        *self.now.get_or_insert_with(Instant::now)
    }

    /// The time now, and not when the turn began.
    pub(super) fn read_again(&mut self) -> Instant {
        *self.now.insert(Instant::now())
    }

    /// What was read is old: a handler may have held the thread since.
    pub(super) fn forget(&mut self) {
        self.now = None;
    }
}
