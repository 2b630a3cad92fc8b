use std::{
    io,
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread::{self, JoinHandle},
};

use tokio::sync::oneshot;

use crate::{
    contestant::{Contestant, Entered, Error, Place, Step, Unexpected},
    disk::floor::Floor,
};

/// A floor on a thread of its own.
pub(crate) struct Handed {
    work: SyncSender<Work>,
    thread: JoinHandle<()>,
}

struct Work {
    window: usize,
    takes: bool,
    done: oneshot::Sender<io::Result<()>>,
}

/// A file of zeros, on a thread of its own, which is woken for each window and wakes the task that waits.
pub(crate) fn enter(place: Place<'_>) -> Step<'_, Entered> {
    Box::pin(async move {
        let settings = "the floor on a thread of its own: what it takes to hand a window over".into();
        Ok(Entered { contestant: Box::new(Handed::new(Floor::preallocated(place)?)?), settings })
    })
}

impl Handed {
    fn new(floor: Floor) -> io::Result<Self> {
        let (work, works) = sync_channel(1);
        let thread = thread::Builder::new().name("floor".into()).spawn(move || write(floor, &works))?;
        Ok(Self { work, thread })
    }

    async fn hand(&self, window: usize, takes: bool) -> Result<(), Error> {
        let (done, is_done) = oneshot::channel();
        self.work.send(Work { window, takes, done })?;
        Ok(is_done.await??)
    }
}

fn write(mut floor: Floor, works: &Receiver<Work>) {
    while let Ok(Work { window, takes, done }) = works.recv() {
        let written = if takes { floor.take_all(window) } else { floor.send_all(window) };
        // The caller may have dropped its future.
        let _ = done.send(written);
    }
}

impl Contestant for Handed {
    fn send(&mut self, window: usize) -> Step<'_> {
        Box::pin(self.hand(window, false))
    }

    fn take(&mut self, window: usize) -> Step<'_> {
        Box::pin(self.hand(window, true))
    }

    fn end(self: Box<Self>) -> Step<'static> {
        Box::pin(async move {
            drop(self.work);
            self.thread.join().map_err(|_| Unexpected("the thread of the floor panicked").into())
        })
    }
}
