use std::{sync::Arc, time::Duration};

use consign::{
    middleware::dedup::{Begin, StoreError, StoreErrorKind},
    time::{Moment, Timestamp},
};
use tokio::sync::mpsc;

use crate::{
    file::{File, View, unavailable},
    replies::NewReply,
    request::{Answer, Holder, RedbToken, Request},
    reserved::{Held, Reserved},
};

struct Commit {
    token: Holder,
    now: Timestamp,
    answer: Answer<()>,
}

struct Put {
    reply: NewReply,
    answer: Answer<()>,
}

/// The thread of a store: answers requests in their order, and writes commits and replies together.
pub(crate) struct Worker {
    file: File,
    incoming: mpsc::Receiver<Request>,
    reserved: Reserved,
    /// Opened on demand, and closed before a write, which would have to keep its contents.
    view: Option<View>,
    commits: Vec<Commit>,
    puts: Vec<Put>,
    /// By the monotonic clock of the latest request.
    now: Duration,
    failed: Option<Failed>,
}

/// A write has failed: no id is reserved until one succeeds, as it could not be committed.
struct Failed {
    /// When the file is opened again.
    next: Duration,
    pause: Duration,
}

impl Worker {
    /// The first and the longest pause before the file is opened again.
    const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));

    /// How many commits, and how many replies, are written together.
    const TOGETHER: usize = 256;

    pub(crate) fn new(file: File, incoming: mpsc::Receiver<Request>) -> Self {
        let (reserved, now) = (Reserved::default(), Duration::ZERO);
        Self { file, incoming, reserved, view: None, commits: Vec::new(), puts: Vec::new(), now, failed: None }
    }

    pub(crate) fn run(mut self) {
        while let Some(request) = self.incoming.blocking_recv() {
            self.take(request);
            while self.commits.len().max(self.puts.len()) < Self::TOGETHER
                && let Ok(request) = self.incoming.try_recv()
            {
                self.take(request);
            }
            self.write();
        }
    }

    fn take(&mut self, request: Request) {
        match request {
            Request::Begin { digest, now, lease, answer } => {
                let begun = self.begin(digest, now, lease);
                if let Err(Ok(Begin::New(token))) = answer.send(begun) {
                    // The caller has gone.
                    self.reserved.remove(*token.inner());
                }
            }
            Request::Renew { token, now, lease, answer } => {
                let is_renewed = self.reserved.renew(token, now.elapsed, lease);
                let superseded = || StoreError::new(StoreErrorKind::Superseded);
                drop(answer.send(is_renewed.then_some(()).ok_or_else(superseded)));
            }
            Request::Commit { token, now, answer } => match self.may_commit(token, now) {
                Ok(true) => self.commits.push(Commit { token, now: now.utc, answer }),
                Ok(false) => drop(answer.send(Ok(()))),
                Err(error) => drop(answer.send(Err(error))),
            },
            Request::Forget { token, answer } => {
                self.reserved.remove(token);
                drop(answer.send(Ok(())));
            }
            Request::PutReply { reply, now, answer } => match self.recover(now.elapsed) {
                Ok(()) => self.puts.push(Put { reply, answer }),
                Err(error) => drop(answer.send(Err(error))),
            },
            Request::FindReply { digest, now, answer } => {
                let found = self.recover(now.elapsed);
                let found = found.and_then(|()| self.file.reply(digest, now.utc).map_err(unavailable));
                drop(answer.send(found));
            }
        }
    }

    /// Opens the file again if a write has failed and the pause is over.
    fn recover(&mut self, now: Duration) -> Result<(), StoreError> {
        self.now = now;
        let Some(Failed { next, pause }) = self.failed else { return Ok(()) };
        if now < next {
            return Err(unavailable(redb::Error::PreviousIo));
        }
        let opened = self.file.open_again();
        self.failed = opened.is_err().then(|| {
            let pause = (pause * 2).min(Self::PAUSES.1);
            Failed { next: now.saturating_add(pause), pause }
        });
        opened
    }

    fn begin(&mut self, digest: u128, now: Moment, lease: Duration) -> Result<Begin<RedbToken>, StoreError> {
        self.recover(now.elapsed)?;
        if let Some(left) = self.reserved.left(digest, now.elapsed) {
            return Ok(Begin::InProgress { left });
        }
        // A commit counts from its arrival, even if the lease is over and it is not written yet.
        if self.commits.iter().any(|commit| commit.token.digest == digest) {
            self.write();
        }
        if self.is_known(digest, now.utc)? {
            return Ok(Begin::Committed);
        }
        if self.is_full(digest, now)? {
            return Err(StoreError::new(StoreErrorKind::Full));
        }
        match self.reserved.insert(digest, now.elapsed, lease) {
            Some(holder) => Ok(Begin::New(RedbToken::new(holder))),
            None => Err(StoreError::new(StoreErrorKind::Full)),
        }
    }

    /// Whether a commit of this id would be refused, after those that are reserved now.
    fn is_full(&mut self, digest: u128, now: Moment) -> Result<bool, StoreError> {
        let pending = self.reserved.others(digest) + self.commits.len();
        if !self.is_full_after(pending, now.utc)? {
            return Ok(false);
        }
        self.write();
        self.reserved.forget_over(now.elapsed);
        self.is_full_after(self.reserved.others(digest), now.utc)
    }

    fn is_full_after(&mut self, pending: usize, now: Timestamp) -> Result<bool, StoreError> {
        let view = Self::view(&mut self.view, &self.file)?;
        self.file.is_full(view, now, pending).map_err(unavailable)
    }

    /// `false` if there is nothing to do.
    fn may_commit(&mut self, token: Holder, now: Moment) -> Result<bool, StoreError> {
        self.recover(now.elapsed)?;
        match self.reserved.held(token) {
            Held::Yes => Ok(true),
            Held::Gone => Ok(!self.is_known(token.digest, now.utc)?),
            Held::BySomebodyElse => Err(StoreError::new(StoreErrorKind::Superseded)),
        }
    }

    fn is_known(&mut self, digest: u128, now: Timestamp) -> Result<bool, StoreError> {
        Self::view(&mut self.view, &self.file)?.is_known(digest, now).map_err(unavailable)
    }

    fn view<'a>(view: &'a mut Option<View>, file: &File) -> Result<&'a View, StoreError> {
        match view {
            Some(view) => Ok(view),
            None => Ok(view.insert(file.view().map_err(unavailable)?)),
        }
    }

    fn write(&mut self) {
        if self.commits.is_empty() && self.puts.is_empty() {
            return;
        }
        self.view = None;
        let added: Vec<_> = self.commits.iter().map(|commit| (commit.token.digest, commit.now)).collect();
        let written = match &self.failed {
            Some(_) => Err(redb::Error::PreviousIo),
            None => self.file.commit(&added, self.puts.iter().map(|put| &put.reply)),
        };
        let (commits, puts) = (self.commits.drain(..), self.puts.drain(..).map(|put| put.answer));
        match written {
            Ok(added) => {
                for (Commit { token, answer, .. }, added) in commits.zip(added) {
                    self.reserved.remove(token);
                    let full = || StoreError::new(StoreErrorKind::Full);
                    drop(answer.send(if added { Ok(()) } else { Err(full()) }));
                }
                puts.for_each(|answer| drop(answer.send(Ok(()))));
            }
            Err(error) => {
                if self.failed.is_none() {
                    tracing::warn!(%error, "ids or replies could not be stored: handled messages may be handled again");
                    self.file.close();
                    let pause = Self::PAUSES.0;
                    self.failed = Some(Failed { next: self.now.saturating_add(pause), pause });
                }
                let error = Arc::new(error);
                for answer in commits.map(|commit| commit.answer).chain(puts) {
                    drop(answer.send(Err(unavailable(Arc::clone(&error)))));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs, io,
        sync::atomic::{AtomicBool, Ordering},
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

    /// A file on a disk that is full now and then.
    #[derive(Debug)]
    struct Disk {
        file: FileBackend,
        is_full: Arc<AtomicBool>,
    }

    impl Disk {
        fn check(&self) -> io::Result<()> {
            if self.is_full.load(Ordering::Relaxed) { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
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
            self.check()?;
            self.file.set_len(len)
        }

        fn sync_data(&self) -> io::Result<()> {
            self.file.sync_data()
        }

        fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
            self.check()?;
            self.file.write(offset, data)
        }
    }

    /// Rules: W-09.
    #[test]
    fn ids_are_reserved_and_committed_again_after_the_disk_was_full() {
        let (folder, is_full) = (tempfile::tempdir().expect("a folder"), Arc::new(AtomicBool::new(false)));
        let (path, shared) = (folder.path().join("ids.redb"), Arc::clone(&is_full));
        let open = move || {
            let file = fs::File::options().read(true).write(true).create(true).truncate(false).open(&path)?;
            let disk = Disk { file: FileBackend::new(file)?, is_full: Arc::clone(&shared) };
            redb::Database::builder().create_with_backend(disk)
        };
        let file = File::open_by(Box::new(open), 10 * LEASE, 10, 0).expect("a file");
        let mut worker = Worker::new(file, mpsc::channel(1).1);
        let commit = |worker: &mut Worker, token: &RedbToken, now| {
            let (answer, mut answered) = oneshot::channel();
            worker.take(Request::Commit { token: *token.inner(), now, answer });
            worker.write();
            answered.try_recv().expect("an answer").is_ok()
        };
        let Ok(Begin::New(token)) = worker.begin(7, at(Duration::ZERO), LEASE) else { panic!("unknown") };
        is_full.store(true, Ordering::Relaxed);
        assert!(!commit(&mut worker, &token, at(Duration::ZERO)));
        let mut now = Duration::ZERO;
        for _ in 0..10 {
            assert!(worker.begin(8, at(now), LEASE).is_err(), "it could not be committed");
            now += Duration::from_millis(100);
        }
        is_full.store(false, Ordering::Relaxed);
        now += Worker::PAUSES.1;
        let Ok(Begin::New(other)) = worker.begin(8, at(now), LEASE) else { panic!("unknown") };
        assert!(commit(&mut worker, &other, at(now)) && commit(&mut worker, &token, at(now)));
        for digest in [7, 8] {
            assert!(matches!(worker.begin(digest, at(now), LEASE), Ok(Begin::Committed)));
        }
    }

    #[test]
    fn an_id_that_nobody_waits_for_any_more_is_not_reserved() {
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
}
