use std::{path::Path, sync::Arc, time::Duration};

use consign::{
    Message,
    broker::{Broker, OpenOptions, Queue, QueueLease},
    time::{ManualClock, Timestamp},
    transport::{Delivery, ReceiverExt},
};
use tempfile::TempDir;

pub(crate) const START: Timestamp = Timestamp::from_millis(1_700_000_000_000);

/// A store that brokers come and go in.
pub(crate) struct Disk {
    folder: TempDir,
    /// UTC of the machine; the monotonic clock begins anew with each process.
    utc: Timestamp,
}

impl Disk {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), utc: START }
    }

    /// Where a sync costs little, if the machine has such a place.
    pub(crate) fn quick() -> Self {
        let memory = Path::new("/dev/shm");
        let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        Self { folder: folder.unwrap(), utc: START }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// A broker as a new process would have it, on a clock of its own.
    pub(crate) fn open(&self) -> (Broker, Arc<ManualClock>) {
        self.open_with(Broker::options())
    }

    pub(crate) fn open_with(&self, options: OpenOptions) -> (Broker, Arc<ManualClock>) {
        let clock = Arc::new(ManualClock::new(self.utc));
        let broker = options.clock(Arc::clone(&clock)).open(self.path()).unwrap();
        (broker, clock)
    }

    pub(crate) fn set_utc(&mut self, utc: Timestamp) {
        self.utc = utc;
    }

    /// The time passes while no broker runs, and while one does.
    pub(crate) fn advance(&mut self, by: Duration) {
        self.utc = self.utc.saturating_add(by);
    }
}

/// What is there, without waiting.
pub(crate) async fn receive(queue: &Queue) -> Vec<Delivery<QueueLease>> {
    let counts = queue.counts();
    if counts.active == 0 { Vec::new() } else { queue.receiver().receive_batch(counts.active).await.unwrap() }
}

pub(crate) fn text(message: &Message) -> &str {
    std::str::from_utf8(message.payload().unwrap()).unwrap()
}

pub(crate) fn texts(deliveries: &[Delivery<QueueLease>]) -> Vec<&str> {
    deliveries.iter().map(|delivery| text(&delivery.message)).collect()
}
