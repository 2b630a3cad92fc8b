//! The broker of a world on a disk: it is closed now and then, and opened again.

use std::{path::Path, sync::Arc, time::Duration};

use consign::{
    Disposition, Message,
    broker::{Broker, Durability},
    time::ManualClock,
    transport::{ErrorKind, Lease, Sender},
};
use tempfile::TempDir;

use super::{
    Driver, Handle, Held, HeldSession, Open,
    receive::take,
    send::timestamp,
    world::{Kind, Real},
};

/// Every so many operations the broker is opened again, on average.
const EVERY: u32 = 300;

/// A folder for the broker of one world.
pub(super) struct Disk {
    folder: TempDir,
    durability: Durability,
    hold_locks: bool,
    /// Apart from that of the world, so that a seed stands for the same operations in memory and on a disk.
    rng: fastrand::Rng,
}

impl Disk {
    pub(super) fn new(world_seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(!world_seed);
        // A sync costs little where there is memory only, and whether the disk keeps its word is not the question here.
        let memory = Path::new("/dev/shm");
        let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        // Either every operation is a batch of its own, or a batch has many of them.
        let durability = match rng.u32(0..3) {
            0 => Durability::Relaxed { max_delay: Duration::from_millis(rng.u64(1..100)) },
            _ => Durability::Durable,
        };
        Self { folder: folder.unwrap(), durability, hold_locks: rng.u32(0..3) == 0, rng }
    }

    pub(super) fn open(&self, clock: &Arc<ManualClock>) -> Broker {
        let options = Broker::options().clock(Arc::clone(clock)).durability(self.durability);
        options.hold_locks(self.hold_locks).open(self.folder.path()).unwrap()
    }
}

/// What was handed out before the broker was closed.
struct Old {
    handles: Vec<Handle>,
    held: Vec<Held>,
    sessions: Vec<HeldSession>,
    transactions: Vec<Open>,
}

impl Driver {
    pub(super) fn reopen_sometimes(&mut self) {
        if self.disk.as_mut().is_some_and(|disk| disk.rng.u32(0..EVERY) == 0) {
            self.reopen();
        }
    }

    fn reopen(&mut self) {
        self.last = "close, and open again";
        tokio::runtime::Handle::current().block_on(self.broker.close()).unwrap();
        let mut old = Old {
            handles: std::mem::take(&mut self.handles),
            held: std::mem::take(&mut self.held),
            sessions: std::mem::take(&mut self.sessions),
            transactions: std::mem::take(&mut self.transactions),
        };
        let Some(disk) = &mut self.disk else { return };
        let after = match disk.rng.u32(0..4) {
            0..2 => 0,
            2 => disk.rng.u64(0..500),
            _ => disk.rng.u64(0..100_000),
        };
        old.use_some(&mut disk.rng);
        self.model.reopen(after, disk.hold_locks);
        self.clock = Arc::new(ManualClock::new(timestamp(self.model.utc)));
        self.broker = disk.open(&self.clock);
        old.use_some(&mut disk.rng);
        self.find_handles(&old.handles);
        drop(old);
        self.compare_counts();
        self.compare_all();
        self.tally.reopens += 1;
    }

    /// Handles of the broker as it is opened. What is deleted has none any more.
    fn find_handles(&mut self, old: &[Handle]) {
        let mut places = vec![None; old.len()];
        for (at, handle) in old.iter().enumerate() {
            if !self.model.entities.contains_key(&handle.entity) {
                continue;
            }
            places[at] = Some(self.handles.len());
            let path = handle.path;
            let real = match handle.kind {
                Kind::Queue => Real::Queue(self.broker.queue(path).unwrap()),
                Kind::Topic => Real::Topic(self.broker.topic(path).unwrap()),
                Kind::Subscription => {
                    let (topic, name) = path.split_once("/Subscriptions/").unwrap();
                    Real::Subscription(self.broker.topic(topic).unwrap().subscription(name).unwrap())
                }
            };
            self.handles.push(Handle { real, ..handle.clone() });
        }
        self.scheduled = self.scheduled.drain(..).filter_map(|(at, number)| Some((places[at]?, number))).collect();
    }
}

impl Old {
    /// Uses about half of what is left. None of it has an effect, and all that can answers that.
    fn use_some(&mut self, rng: &mut fastrand::Rng) {
        let failed = Err(ErrorKind::General);
        while rng.bool()
            && let Some(Held { delivery, .. }) = self.held.pop()
        {
            let lease = delivery.lease;
            let kind = match rng.u32(0..5) {
                0 => lease.renew().into_inner().map(drop).map_err(|error| error.kind()),
                1 => lease.release().wait().map_err(|error| error.kind()),
                2 => lease.settle(Disposition::DEFER).wait().map_err(|error| error.kind()),
                3 => lease.settle(Disposition::Complete).wait().map_err(|error| error.kind()),
                _ => continue,
            };
            assert_eq!(kind, failed);
        }
        if let Some(HeldSession { mut receiver, .. }) = self.sessions.pop() {
            assert_eq!(receiver.renew().map_err(|error| error.kind()).map(drop), failed);
            assert_eq!(receiver.state().map_err(|error| error.kind()).map(drop), failed);
            assert_eq!(receiver.set_state(None).wait().map_err(|error| error.kind()), failed);
            assert_eq!(take(&mut receiver, 1).map(drop), failed);
            assert_eq!(receiver.receive_deferred(&[]).map_err(|error| error.kind()).map(drop), failed);
            if rng.bool() {
                assert_eq!(receiver.close().map_err(|error| error.kind()), failed);
            }
        }
        if let Some(Open { transaction, .. }) = self.transactions.pop().filter(|_| rng.bool()) {
            let committed = transaction.commit().wait().map_err(|error| error.kind());
            assert!(matches!(committed, Err(ErrorKind::General | ErrorKind::Transaction)), "{committed:?}");
        }
        let Some(Handle { real, .. }) = rng.choice(&self.handles) else { return };
        let (queue, sender) = match real {
            Real::Queue(queue) => (Some(queue), Some(queue.sender().unwrap())),
            Real::Topic(topic) => (None, Some(topic.sender())),
            Real::Subscription(subscription) => (Some(subscription.queue()), None),
        };
        if let Some(sender) = sender {
            assert_eq!(sender.send(Message::new("late")).wait().map_err(|error| error.kind()), failed);
        }
        if let Some(queue) = queue {
            assert_eq!(take(&mut queue.receiver(), 1).map(drop), failed);
            assert_eq!(queue.receive_deferred(&[]).map_err(|error| error.kind()).map(drop), failed);
            assert_eq!(queue.accept_session("s0").map_err(|error| error.kind()).map(drop), failed);
        }
    }
}
