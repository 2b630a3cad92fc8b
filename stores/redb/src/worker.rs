use std::{sync::Arc, time::Duration};

use consign::{
    middleware::dedup::{Begin, StoreError, StoreErrorKind},
    time::{Moment, Timestamp},
    transport::Escaped,
};
use tokio::sync::mpsc;

use crate::{
    file::{File, View, unavailable},
    panics::{Panicked, caught},
    replies::NewReply,
    request::{Answer, Holder, RedbToken, Request},
    reserved::{Held, Reserved},
};

/// The target of all lines.
const TARGET: &str = "consign::middleware::dedup";

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
    /// After the next failed write. It is reset by a write that succeeds, not by the opening of the file.
    pause: Duration,
}

/// A write has failed: no id is reserved until one succeeds, as it could not be committed.
struct Failed {
    /// When the file is opened again.
    next: Duration,
    error: Arc<redb::Error>,
}

impl Worker {
    /// The first and the longest pause before the file is opened again.
    const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));

    /// How many commits, and how many replies, are written together.
    const TOGETHER: usize = 256;

    pub(crate) fn new(file: File, incoming: mpsc::Receiver<Request>) -> Self {
        let (reserved, now, pause) = (Reserved::default(), Duration::ZERO, Self::PAUSES.0);
        Self { file, incoming, reserved, view: None, commits: Vec::new(), puts: Vec::new(), now, failed: None, pause }
    }

    pub(crate) fn run(mut self) {
        if let Err(panicked) = caught(|| self.answer_all()) {
            tracing::error!(target: TARGET, error = %Escaped(&panicked.to_string()), "the store's thread panicked: restart the process");
            self.refuse_all(&panicked);
            // redb may panic again when the database is dropped, and a panic within a panic would end the process.
            std::mem::forget(self);
        }
    }

    /// Answers requests until the store is dropped.
    fn answer_all(&mut self) {
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

    fn refuse_all(&mut self, panicked: &Panicked) {
        let commits = self.commits.drain(..).map(|commit| commit.answer);
        for answer in commits.chain(self.puts.drain(..).map(|put| put.answer)) {
            drop(answer.send(Err(unavailable(panicked.clone()))));
        }
        while let Some(request) = self.incoming.blocking_recv() {
            request.refuse(unavailable(panicked.clone()));
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
        let Some(Failed { next, error }) = &self.failed else { return Ok(()) };
        if now < *next {
            return Err(unavailable(Arc::clone(error)));
        }
        let (error, opened) = (Arc::clone(error), self.file.open_again(Self::TOGETHER));
        self.failed = opened.is_err().then(|| self.pause_after(error));
        opened
    }

    fn pause_after(&mut self, error: Arc<redb::Error>) -> Failed {
        let next = self.now.saturating_add(self.pause);
        self.pause = (self.pause * 2).min(Self::PAUSES.1);
        Failed { next, error }
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
            Some(Failed { error, .. }) => Err(Arc::clone(error)),
            None => self.file.commit(&added, self.puts.iter().map(|put| &put.reply)).map_err(Arc::new),
        };
        if let (Err(error), None) = (&written, &self.failed) {
            let text = error.to_string();
            tracing::warn!(target: TARGET, error = %Escaped(&text), "ids or replies could not be stored: handled messages may be handled again");
            self.file.close();
            self.failed = Some(self.pause_after(Arc::clone(error)));
        }
        let (commits, puts) = (self.commits.drain(..), self.puts.drain(..).map(|put| put.answer));
        match written {
            Ok(added) => {
                self.pause = Self::PAUSES.0;
                for (Commit { token, answer, .. }, added) in commits.zip(added) {
                    self.reserved.remove(token);
                    let full = || StoreError::new(StoreErrorKind::Full);
                    drop(answer.send(if added { Ok(()) } else { Err(full()) }));
                }
                puts.for_each(|answer| drop(answer.send(Ok(()))));
            }
            Err(error) => {
                for answer in commits.map(|commit| commit.answer).chain(puts) {
                    drop(answer.send(Err(unavailable(Arc::clone(&error)))));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
