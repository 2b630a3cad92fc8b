use std::{
    future::{Future, poll_fn},
    path::Path,
    pin::pin,
};

use consign::{administration::QueueSettings, broker::Broker};
use consign_conformance::{NoCall, Report, Suite};
use tempfile::TempDir;
use tokio::time::Instant;

use super::{Embedded, TokioClock};

/// The broker on a disk. Whatever it answers is there.
pub(crate) struct OnDisk {
    embedded: Embedded,
    broker: Broker,
    _folder: TempDir,
}

impl OnDisk {
    /// Part of no case: what is changed when a change is all that is wanted.
    const OTHER: &str = "other";

    pub(crate) fn new() -> Self {
        // A sync costs little there, and there is one for each answer.
        let memory = Path::new("/dev/shm");
        let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        let folder = folder.expect("a folder");
        let clock = TokioClock(Instant::now());
        let broker = Broker::options().clock(clock).open(folder.path().join("store")).expect("a new store");
        broker.create_queue(Self::OTHER, QueueSettings::default()).expect("a queue of its own");
        let url = Err(NoCall::new("a broker of a URL writes in real time, and the time of these cases is virtual"));
        let embedded = Embedded { transport: broker.clone().into(), clock, name: "durable", url };
        Self { embedded, broker, _folder: folder }
    }

    pub(crate) async fn run(&self, suite: &Suite) -> Report {
        self.in_step(suite.run(&self.embedded)).await
    }

    /// Runs to its end what waits for the disk. A thread writes there in real time, of which tokio's knows nothing: it goes
    /// on as soon as everything waits. So nothing waits before the disk has everything, and has said so.
    async fn in_step<F: Future>(&self, running: F) -> F::Output {
        let mut running = pin!(running);
        poll_fn(|cx| {
            let polled = running.as_mut().poll(cx);
            if polled.is_pending() {
                let broker = &self.broker;
                broker.flush().wait().expect("a disk that works");
                // A batch is written when everyone who waited for the one before it has been woken.
                broker.update_queue(Self::OTHER, QueueSettings::default()).expect("a queue of its own");
                broker.flush().wait().expect("a disk that works");
            }
            polled
        })
        .await
    }
}
