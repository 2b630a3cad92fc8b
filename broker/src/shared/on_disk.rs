//! The part of a broker's state that only a broker on a disk has.

use std::sync::Arc;

use consign_core::{Message, message::Received, time::Clock, transport::ManageError};

use super::{Shared, State};
use crate::{
    Acknowledged, Quirks,
    durable::{Batch, Recorder, StorageError, StorageErrorKind, Table, Taken, corrupted, key},
    engine::{Change, Engine, StoreId, Wanted, say_expired, show},
    panics::Poisoned,
    sync::Mutex,
};

/// Whether the time is written although nothing has changed. If UTC has stepped back when the store is opened again,
/// pending events are due by the latest time that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stamp {
    No,
    /// If anything waits for its time.
    IfDue,
    /// With the last changes.
    Yes,
}

/// The work of the threads of a broker on a disk after a call.
pub(crate) struct Next {
    /// To write, although no call waits for it.
    pub(crate) requests: bool,
    /// To write without delay.
    pub(crate) hurries: bool,
    /// To read these messages.
    pub(crate) wanted: Vec<Wanted>,
}

impl Shared {
    /// Writes the final state of dead letters that only the settings distinguish from messages that expire. This
    /// comes before the settings change.
    pub(super) fn update_on_disk(
        &self,
        recorder: &Recorder,
        store: StoreId,
        change: Change,
    ) -> Result<(), ManageError> {
        let mut change = Some(change);
        let mut from = 0;
        loop {
            let now = self.now();
            let unsaid = self.with(|state| {
                let Some(to) = change.take() else { return Ok(Vec::new()) };
                let unsaid = state.engine.unsaid(now, store, &to, from);
                if unsaid.is_empty() && from == 0 {
                    return state.engine.update(now, store, to).map(|()| unsaid);
                }
                change = Some(to);
                Ok(unsaid)
            })?;
            if change.is_none() {
                return Ok(());
            }
            // Behind the last one, the first may be another message by now.
            from = unsaid.last().map_or(0, |last| last.order + 1);
            let read =
                recorder.fetcher().read_all(&unsaid).inspect_err(|failure| self.fail_to_read(recorder, failure))?;
            let now = self.now();
            if let Some(Wanted { store, order, .. }) = self.with(|state| state.engine.page_in(now, read)) {
                return Err(corrupted(Table::Messages, &key(store.serial, order), "it is missing").into());
            }
            // However many there are, they leave memory again.
            self.flushed().wait()?;
        }
    }

    /// Reads a message that is on the disk only, `None` if it has gone, or the disk fails.
    pub(super) fn read_message(
        &self,
        serial: u64,
        order: u64,
        received: Received,
        has_expired: bool,
    ) -> Option<Message> {
        let recorder = self.recorder.as_ref()?;
        let read = recorder.fetcher().read(serial, order).inspect_err(|failure| self.fail_to_read(recorder, failure));
        let mut message = read.ok()??;
        if has_expired {
            say_expired(&mut message);
        }
        Some(show(&message, received))
    }

    /// A disk that fails ends the broker, and all that waits.
    fn fail_to_read(&self, recorder: &Recorder, failure: &StorageError) {
        recorder.fetcher().fail(failure.clone());
        self.wake_all();
    }

    /// Creates the state of a broker on a disk, whose `clock` is made of `user_clock`.
    pub(crate) fn on_disk(
        clock: Arc<dyn Clock>,
        user_clock: Arc<dyn Clock>,
        engine: Engine,
        recorder: Recorder,
    ) -> Self {
        let mut shared = Self::new(clock, Quirks::default());
        shared.user_clock = user_clock;
        shared.state = Mutex::new(State::new(engine));
        shared.recorder = Some(recorder);
        shared
    }

    pub(crate) fn recorder(&self) -> Option<&Recorder> {
        self.recorder.as_ref()
    }

    /// Sets how many bytes the disk has space for, with all changes that were taken on it.
    pub(crate) fn set_space(&self, space: u64) {
        let now = self.now();
        self.with(|state| state.engine.set_space(now, space));
    }

    /// Takes the changes. Returns the number of their batch, and what may leave memory once it is on the disk. The disk
    /// has space for `space` bytes. Fails after a panic within the engine, with which the changes since the last call are
    /// lost.
    pub(crate) fn take_changes(
        &self,
        taken: &mut Taken,
        stamp: Stamp,
        space: u64,
    ) -> Result<(u64, Vec<Wanted>), StorageError> {
        let now = self.now();
        self.with(|state| {
            let Some(recorder) = &self.recorder else { return Ok((0, Vec::new())) };
            // Only a panic under this lock sets it.
            self.check_whole::<StorageError>()?;
            if stamp == Stamp::Yes {
                recorder.end_batches();
            }
            let stamp = match stamp {
                Stamp::No => false,
                Stamp::IfDue => state.engine.next_deadline().is_some(),
                Stamp::Yes => true,
            };
            let written = state.engine.take_changes(now, recorder.identity(), taken, stamp);
            state.engine.begin_batch(now, space);
            Ok((recorder.turn(), written))
        })
    }

    pub(crate) fn flushed(&self) -> Acknowledged<(), StorageError> {
        match &self.recorder {
            Some(recorder) => Acknowledged::when(recorder.flushed(), self.check_open()),
            None => Acknowledged::ready(self.check_open()),
        }
    }

    pub(crate) fn compact(&self) -> Acknowledged<(), StorageError> {
        let Some(recorder) = &self.recorder else { return Acknowledged::ready(self.check_open()) };
        self.with(|_| recorder.compact());
        recorder.request();
        Acknowledged::when(recorder.compacted(), self.check_open())
    }

    pub(crate) async fn close(&self) -> Result<(), StorageError> {
        let Some(recorder) = &self.recorder else { return Ok(()) };
        match recorder.close().await {
            Err(failure) if failure.kind() != StorageErrorKind::Closed => {
                recorder.released().await;
                Err(failure)
            }
            _ => Ok(()),
        }
    }

    /// Why nothing is stored any more.
    pub(crate) fn failure(&self) -> Option<&StorageError> {
        self.recorder.as_ref()?.failure()
    }

    /// Fails when nothing is stored any more, so that a call has no effect that would be lost. Fails also after a
    /// call that panicked within the engine.
    #[inline]
    pub(crate) fn check_open<E: From<StorageError> + From<Poisoned>>(&self) -> Result<(), E> {
        match self.failure() {
            Some(failure) => Err(failure.clone().into()),
            None => self.check_whole(),
        }
    }

    /// Wakes all that wait for a message, so that they return the failure.
    pub(crate) fn wake_all(&self) {
        self.with(|state| state.waiters.owe_everyone());
    }

    /// Returns the result of a call, ready when it is as safe as it has to be.
    #[inline]
    pub(crate) fn acknowledge<T, E: From<StorageError>>(&self, answer: Result<T, E>) -> Acknowledged<T, E> {
        match &self.recorder {
            Some(recorder) => Acknowledged::when(recorder.pending(), answer),
            None => Acknowledged::ready(answer),
        }
    }

    /// Whether every call is as safe as it has to be when it has happened: the broker has no disk.
    #[inline]
    pub(crate) fn answers_at_once(&self) -> bool {
        self.recorder.is_none()
    }

    /// Returns the future of a call that has succeeded, if the call is not yet as safe as it has to be.
    #[inline]
    pub(crate) fn unanswered<E: From<StorageError>>(&self) -> Option<Acknowledged<(), E>> {
        let commit = self.recorder.as_ref()?.pending()?;
        Some(Acknowledged::when(Some(commit), Ok(())))
    }
}

/// Writes pending changes, and ends the thread that writes.
impl Drop for Shared {
    fn drop(&mut self) {
        let (mut taken, mut last) = (Taken::default(), Batch::default());
        if self.recorder.is_some() {
            // After a panic there is nothing to write.
            let _ = self.take_changes(&mut taken, Stamp::Yes, 0);
        }
        if let Some(recorder) = &mut self.recorder {
            taken.encode(&mut last);
            recorder.end(last);
        }
    }
}

impl State {
    /// Records that there are changes. Returns the work of the threads of the broker, which they start where the engine is
    /// not locked.
    pub(super) fn note_changes(&mut self, recorder: &Recorder, is_answered: bool) -> Option<Next> {
        let (mut requests, mut hurries) = (false, false);
        if self.engine.has_changes() {
            requests = recorder.note() && !is_answered;
            hurries = self.engine.has_many_changes();
        }
        let wanted = self.engine.take_wanted();
        (requests || hurries || !wanted.is_empty()).then_some(Next { requests, hurries, wanted })
    }
}
