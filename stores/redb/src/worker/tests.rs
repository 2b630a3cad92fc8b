use std::{
    fs, io,
    sync::atomic::{AtomicBool, AtomicU8, Ordering},
};

use redb::{StorageBackend, backends::FileBackend};
use tempfile::TempDir;
use tokio::sync::oneshot;

use super::*;

const LEASE: Duration = Duration::from_secs(60);

fn worker(folder: &TempDir) -> Worker {
    let file = File::open(&folder.path().join("ids.redb"), 10 * LEASE, 10, 0).expect("a file");
    Worker::new(file, mpsc::channel(1).1)
}

fn at(elapsed: Duration) -> Moment {
    Moment { elapsed, utc: Timestamp::EPOCH.saturating_add(elapsed) }
}

/// What a disk still takes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Takes {
    Everything,
    /// As a full disk does: what is there may be overwritten.
    NoGrowth,
    Nothing,
}

/// A file on a disk that is full now and then.
#[derive(Debug)]
struct Disk {
    file: FileBackend,
    takes: Arc<AtomicU8>,
}

impl Disk {
    /// Checks a write that ends there.
    fn check(&self, end: u64) -> io::Result<()> {
        let takes = self.takes.load(Ordering::Relaxed);
        let is_taken = takes == Takes::Everything as u8 || takes == Takes::NoGrowth as u8 && end <= self.file.len()?;
        if is_taken { Ok(()) } else { Err(io::ErrorKind::StorageFull.into()) }
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.check(len)?;
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        // No test here loses power.
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.check(offset + data.len() as u64)?;
        self.file.write(offset, data)
    }
}

/// A worker on such a disk.
struct Bench {
    _folder: TempDir,
    takes: Arc<AtomicU8>,
    worker: Worker,
}

impl Bench {
    fn new(max: u64) -> Self {
        let (folder, takes) =
            (tempfile::tempdir().expect("a folder"), Arc::new(AtomicU8::new(Takes::Everything as u8)));
        let path = folder.path().join("ids.redb");
        let (opened, shared) = (path.clone(), Arc::clone(&takes));
        let open = move || {
            let file = fs::File::options().read(true).write(true).create(true).truncate(false).open(&opened)?;
            let disk = Disk { file: FileBackend::new(file)?, takes: Arc::clone(&shared) };
            redb::Database::builder().create_with_backend(disk)
        };
        let file = File::open_by(Box::new(open), &path, 10 * LEASE, max, 0).expect("a file");
        Self { _folder: folder, takes, worker: Worker::new(file, mpsc::channel(1).1) }
    }

    fn takes(&self, takes: Takes) {
        self.takes.store(takes as u8, Ordering::Relaxed);
    }

    fn begin(&mut self, digest: u128, now: Duration) -> Result<Begin<RedbToken>, StoreError> {
        self.worker.begin(digest, at(now), LEASE)
    }

    fn reserve(&mut self, digest: u128, now: Duration) -> RedbToken {
        let Ok(Begin::New(token)) = self.begin(digest, now) else { panic!("unknown") };
        token
    }

    fn commit(&mut self, token: &RedbToken, now: Duration) -> Result<(), StoreError> {
        let (answer, mut answered) = oneshot::channel();
        self.worker.take(Request::Commit { token: *token.inner(), now: at(now), answer });
        self.worker.write();
        answered.try_recv().expect("an answer")
    }
}

/// Rules: W-09.
#[test]
fn ids_are_reserved_and_committed_again_after_the_disk_was_full() {
    let mut bench = Bench::new(10);
    let token = bench.reserve(7, Duration::ZERO);
    bench.takes(Takes::Nothing);
    assert!(bench.commit(&token, Duration::ZERO).is_err());
    let mut now = Duration::ZERO;
    for _ in 0..10 {
        assert!(bench.begin(8, now).is_err(), "it could not be committed");
        now += Duration::from_millis(100);
    }
    bench.takes(Takes::Everything);
    now += Worker::PAUSES.1;
    let other = bench.reserve(8, now);
    assert!(bench.commit(&other, now).is_ok() && bench.commit(&token, now).is_ok());
    for digest in [7, 8] {
        assert!(matches!(bench.begin(digest, now), Ok(Begin::Committed)));
    }
}

/// Rules: W-09.
#[test]
fn a_full_disk_that_takes_overwrites_reserves_nothing() {
    let mut bench = Bench::new(u64::MAX);
    bench.takes(Takes::NoGrowth);
    let (mut digest, mut now) = (0_u128, Duration::ZERO);
    // At the end one after the other, so that the file has pages for no further one.
    for together in [4_096, 256, 16] {
        let number = || u128::from(getrandom::u64().expect("the system has random numbers"));
        let random = || (number() << 64 | number(), Timestamp::EPOCH);
        while bench.worker.file.commit(&(0..together).map(|_| random()).collect::<Vec<_>>(), [].iter()).is_ok() {}
        bench.worker.file.close();
        bench.worker.file.open_again(0).expect("it may be overwritten");
    }
    let failed = loop {
        digest += 1;
        let token = bench.reserve(digest, now);
        if let Err(failed) = bench.commit(&token, now) {
            break failed;
        }
    };
    let causes = causes(&failed);
    assert!(causes.contains("StorageFull") || causes.contains("no storage space"), "{causes}");
    let mut pause = Worker::PAUSES.0;
    for _ in 0..10 {
        let error = bench.begin(digest, now).expect_err("it could not be committed");
        assert_eq!(self::causes(&error), causes, "the cause of the failed write");
        now += pause.saturating_sub(Duration::from_millis(1));
        assert!(bench.begin(digest, now).is_err());
        assert!(bench.worker.file.is_closed(), "it is not tried before the end of the pause");
        now += Duration::from_millis(1);
        assert!(bench.begin(digest, now).is_err(), "the file is opened, and a batch does not fit into it");
        pause = (pause * 2).min(Worker::PAUSES.1);
    }
    bench.takes(Takes::Everything);
    // The last one is reserved still.
    let token = bench.reserve(digest + 1, now + pause);
    bench.commit(&token, now + pause).expect("there is space again");
}

/// Rules: W-09.
#[test]
fn pauses_become_longer_until_ids_are_written() {
    let mut bench = Bench::new(10);
    let token = bench.reserve(7, Duration::ZERO);
    let mut now = Duration::ZERO;
    let mut pause = Worker::PAUSES.0;
    for _ in 0..10 {
        // The file can be opened and written each time, and the commit fails all the same.
        bench.takes(Takes::Nothing);
        assert!(bench.commit(&token, now).is_err());
        bench.takes(Takes::Everything);
        now += pause.saturating_sub(Duration::from_millis(1));
        assert!(bench.begin(8, now).is_err(), "{pause:?} are not over");
        now += Duration::from_millis(1);
        let other = bench.reserve(8, now);
        bench.worker.reserved.remove(*other.inner());
        pause = (pause * 2).min(Worker::PAUSES.1);
    }
    bench.commit(&token, now).expect("the disk works");
    let token = bench.reserve(8, now);
    bench.takes(Takes::Nothing);
    assert!(bench.commit(&token, now).is_err());
    bench.takes(Takes::Everything);
    bench.reserve(9, now + Worker::PAUSES.0);
}

/// The texts of an error and its causes.
fn causes(error: &StoreError) -> String {
    let causes = std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// A panic of redb, such as that over a damaged page.
#[derive(Debug)]
struct Panics(FileBackend, Arc<AtomicBool>);

impl StorageBackend for Panics {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        assert!(!self.1.swap(false, Ordering::Relaxed), "on purpose");
        self.0.write(offset, data)
    }
}

#[test]
fn after_a_panic_each_call_fails_with_its_text() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("ids.redb");
    let (opened, panics) = (path.clone(), Arc::new(AtomicBool::new(false)));
    let shared = Arc::clone(&panics);
    let open = move || {
        let file = fs::File::options().read(true).write(true).create(true).truncate(false).open(&opened)?;
        redb::Database::builder().create_with_backend(Panics(FileBackend::new(file)?, Arc::clone(&shared)))
    };
    let file = File::open_by(Box::new(open), &path, 10 * LEASE, 10, 0).expect("a file");
    let (requests, incoming) = mpsc::channel(10);
    let mut worker = Worker::new(file, incoming);
    let Ok(Begin::New(token)) = worker.begin(7, at(Duration::ZERO), LEASE) else { panic!("unknown") };
    panics.store(true, Ordering::Relaxed);
    let (answer, committed) = oneshot::channel();
    let commit = Request::Commit { token: *token.inner(), now: at(Duration::ZERO), answer };
    assert!(requests.try_send(commit).is_ok());
    let (answer, mut begun) = oneshot::channel();
    let begin = Request::Begin { digest: 8, now: at(Duration::ZERO), lease: LEASE, answer };
    let thread = std::thread::spawn(move || worker.run());
    let committed = committed.blocking_recv().expect("an answer");
    // After those that were taken together.
    assert!(requests.try_send(begin).is_ok());
    drop(requests);
    drop(thread.join());
    for error in [committed.err(), begun.try_recv().expect("an answer").err()] {
        let error = error.expect("it panicked");
        assert_eq!(error.kind(), StoreErrorKind::Unavailable);
        assert!(causes(&error).contains("on purpose"), "{error:?}");
    }
}

#[test]
fn an_id_whose_caller_has_gone_is_not_reserved() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut worker = worker(&folder);
    let (answer, asked) = oneshot::channel();
    drop(asked);
    let now = at(Duration::ZERO);
    worker.take(Request::Begin { digest: 7, now, lease: LEASE, answer });
    assert!(matches!(worker.begin(7, now, LEASE), Ok(Begin::New(_))));
}

/// Rules: W-08.
#[test]
fn a_late_commit_that_is_not_written_yet_counts() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut worker = worker(&folder);
    let Ok(Begin::New(token)) = worker.begin(7, at(Duration::ZERO), LEASE) else { panic!("unknown") };
    let (answer, mut answered) = oneshot::channel();
    worker.take(Request::Commit { token: *token.inner(), now: at(LEASE), answer });
    assert!(matches!(worker.begin(7, at(LEASE), LEASE), Ok(Begin::Committed)));
    assert!(matches!(answered.try_recv(), Ok(Ok(()))));
}
