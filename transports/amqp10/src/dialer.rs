//! A connection that is opened again when it is lost.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use consign_amqp::client::{self, Connection, Progress, Session};
use consign_core::transport::{BoxFuture, ErrorKind};
use futures_util::FutureExt;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{
    Product, connect,
    core::Core,
    error::Failure,
    log,
    options::Options,
    servers::Servers,
    slot::{Opening, Slot},
};

/// A connection, which several links may share. Clones share it.
#[derive(Clone)]
pub(crate) struct Dialer {
    core: Arc<Core>,
    slot: Arc<Mutex<Slot>>,
}

impl Dialer {
    /// Connects for the first time.
    pub(crate) async fn first(options: Options, servers: Servers) -> Result<(Arc<Core>, Self), Failure> {
        let core = Core::new(options, servers)?;
        let dialer = Self::new(&core);
        let connection = dialer.connection().await?;
        core.product.get_or_init(|| Product::of(&connection.peer()));
        Ok((core, dialer))
    }

    pub(crate) fn new(core: &Arc<Core>) -> Self {
        let server = core.first_server.load(Ordering::Relaxed);
        let slot = Arc::new(Mutex::new(Slot { server, ..Slot::default() }));
        let mut dialers = core.dialers.lock();
        dialers.retain(|dialer| dialer.strong_count() > 0);
        dialers.push(Arc::downgrade(&slot));
        drop(dialers);
        Self { core: Arc::clone(core), slot }
    }

    /// Begins a session on the connection.
    pub(crate) async fn begin(&self) -> Result<(Connection, Session), Failure> {
        let connection = self.connection().await?;
        let session = connection.begin_or_close().await.inspect_err(|_| self.not_attached())?;
        Ok((connection, session))
    }

    /// Makes one round trip.
    pub(crate) async fn ping(&self) -> Result<(), Failure> {
        let timeout = self.core.options.timeout;
        let late = |_| Failure::new(ErrorKind::ServiceTimeout, format!("no answer within {timeout:?}"));
        tokio::time::timeout(timeout, self.round_trip()).await.map_err(late)?
    }

    async fn round_trip(&self) -> Result<(), Failure> {
        // The end of the session is sent, and not waited for: RabbitMQ 3 leaves about one of 2,000 without an answer.
        drop(self.begin().await?);
        self.slot.lock().has_answered = true;
        Ok(())
    }

    /// Takes note of a link that was not attached.
    pub(crate) fn attached<T>(&self, attached: Result<T, client::Error>) -> Result<T, Failure> {
        Ok(attached.inspect_err(|_| self.not_attached())?)
    }

    /// This may be the last call.
    fn not_attached(&self) {
        let mut slot = self.slot.lock();
        if let Some(connection) = slot.connection.take_if(|connection| connection.is_closed()) {
            self.ended(&mut slot, connection.progress());
        }
    }

    /// Returns the connection, and opens it if there is none. An attempt is one for all callers, and continues when none of them
    /// waits for it: otherwise a caller with a short deadline would try only the first server.
    async fn connection(&self) -> Result<Connection, Failure> {
        let opened = {
            let mut slot = self.slot.lock();
            if self.core.is_closed() {
                return Err(Failure::closed());
            }
            if let Some(connection) = slot.connection.as_ref().filter(|connection| !connection.is_closed()) {
                return Ok(connection.clone());
            }
            if let Some(connection) = slot.connection.take() {
                self.ended(&mut slot, connection.progress());
            }
            // One that has panicked is not kept.
            if slot.opening.as_ref().is_some_and(|opening| opening.task.is_finished()) {
                slot.opening = None;
            }
            let (not_before, first) = (slot.not_before, slot.server);
            slot.opening.get_or_insert_with(|| self.opening(not_before, first)).opened.clone()
        };
        opened.await
    }

    /// Starts a task that opens the connection, first to the server `first`.
    fn opening(&self, not_before: Option<Instant>, first: usize) -> Opening {
        let this = self.clone();
        let task = tokio::spawn(async move {
            if let Some(not_before) = not_before {
                tokio::time::sleep_until(not_before).await;
            }
            let opened = this.each_server(first).await;
            this.opened(opened)
        });
        let abort = task.abort_handle();
        let core = Arc::clone(&self.core);
        let opened: BoxFuture<_> = Box::pin(async move {
            let ended = || Failure::new(ErrorKind::General, "the task of the connection has ended");
            task.await.unwrap_or_else(|_| Err(if core.is_closed() { Failure::closed() } else { ended() }))
        });
        Opening { opened: opened.shared(), task: abort }
    }

    /// Keeps the connection that was opened, or the time before which there is no other attempt.
    fn opened(&self, opened: Result<(usize, Connection), (usize, Failure)>) -> Result<Connection, Failure> {
        let mut slot = self.slot.lock();
        slot.opening = None;
        // The connection ends when it is dropped.
        if self.core.is_closed() {
            return Err(Failure::closed());
        }
        match opened {
            Ok((server, connection)) => {
                if slot.has_connected {
                    log::connected(&self.core.servers.all[server], slot.failures);
                }
                slot.connection = Some(connection.clone());
                (slot.server, slot.has_connected, slot.has_answered) = (server, true, false);
                Ok(connection)
            }
            Err((server, failure)) => {
                self.failed(&mut slot, server, &failure);
                Err(failure)
            }
        }
    }

    /// A connection has ended. One without a link or a ping counts as an attempt that has failed, and the next server is tried.
    fn ended(&self, slot: &mut Slot, progress: Progress) {
        match progress {
            _ if slot.has_answered => (slot.failures, slot.not_before) = (0, None),
            Progress::Attached => (slot.failures, slot.not_before) = (0, None),
            Progress::Begun => {
                let server = slot.server;
                let detail = "the connection ended before a link was attached";
                self.failed(slot, server, &Failure::new(ErrorKind::CommunicationProblem, detail));
                slot.server = (server + 1) % self.core.servers.all.len().max(1);
                self.core.first_server.store(slot.server, Ordering::Relaxed);
            }
            // The broker has closed it since it was idle.
            _ => {}
        }
    }

    fn failed(&self, slot: &mut Slot, server: usize, failure: &Failure) {
        let pause = pause(self.core.options.backoff, slot.failures);
        slot.failures = slot.failures.saturating_add(1);
        slot.not_before = Some(Instant::now() + pause);
        log::not_connected(&self.core.servers.all[server], failure, pause);
    }

    /// Tries each server once, first the one that was connected last. Returns which one answered, or the last one with its error.
    async fn each_server(&self, first: usize) -> Result<(usize, Connection), (usize, Failure)> {
        let servers = &self.core.servers.all;
        let mut failed: Option<(usize, Failure)> = None;
        for server in (first..servers.len()).chain(0..first) {
            if let Some((before, error)) = failed.take() {
                log::next_server(&servers[before], &error);
            }
            match connect::open(&self.core, &servers[server]).await {
                Ok(connection) => return Ok((server, connection)),
                Err(error) => failed = Some((server, error)),
            }
        }
        Err(failed.unwrap_or_else(|| (0, Failure::new(ErrorKind::InvalidArgument, "the address has no server"))))
    }
}

/// The pause after so many failures before the last one, with a random part.
pub(crate) fn pause((first, longest): (Duration, Duration), failures: u32) -> Duration {
    // Doubled 64 times, a nanosecond is longer than any option.
    let doubled = (0..failures.min(64)).fold(first, |pause, _| pause.saturating_mul(2));
    doubled.min(longest).mul_f64(0.5 + fastrand::f64() / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let range = (Duration::from_millis(100), Duration::from_secs(10));
        for (failures, most) in [(0, 100), (1, 200), (3, 800), (7, 10_000), (u32::MAX, 10_000)] {
            let (pause, most) = (pause(range, failures), Duration::from_millis(most));
            assert!(pause >= most / 2 && pause <= most, "{failures}: {pause:?}");
        }
        let day = Duration::from_secs(24 * 3_600);
        for first in [Duration::from_nanos(1), Duration::from_millis(1), day] {
            assert!(pause((first, day), 64) >= day / 2, "{first:?}");
        }
        assert_eq!(pause((Duration::ZERO, day), 64), Duration::ZERO);
    }
}
