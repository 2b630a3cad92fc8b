//! Deadlines: the handshake, the peer's silence, and the empty frames that this end sends.

use std::time::Duration;

use super::{Connection, Options, Reason, Violation};

/// The shortest idle timeout of a peer that is served.
const SHORTEST: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) struct Timers {
    /// The latest time that was given.
    now: Duration,
    /// When the peer has to have opened the connection, or to have confirmed a close.
    handshake: Option<Duration>,
    idle_timeout: Option<Duration>,
    /// When the peer is taken for dead.
    idle: Option<Duration>,
    /// The bytes of output that were written when that was set.
    written: u64,
    /// The bytes of input that were left by the last call.
    left: usize,
    /// How often the output is looked at, a quarter of the peer's idle timeout, and when next.
    interval: Duration,
    heartbeat: Option<Duration>,
    /// What was appended to the output when it was looked at.
    appended: u64,
}

impl Timers {
    pub(super) fn new(now: Duration, options: &Options) -> Self {
        Self {
            now,
            handshake: Some(now.saturating_add(options.handshake_timeout)),
            idle_timeout: options.idle_timeout,
            idle: None,
            written: 0,
            left: 0,
            interval: Duration::ZERO,
            heartbeat: None,
            appended: 0,
        }
    }

    /// Takes the time of a call with so many bytes of input, after so many bytes of output were written.
    pub(super) fn received(&mut self, now: Duration, input: usize, written: u64) {
        self.now = self.now.max(now);
        // A call without new bytes does not show that the peer is alive.
        if input > self.left {
            self.restart_idle(written);
        }
    }

    /// Keeps how much input was left.
    pub(super) const fn leave(&mut self, input: usize) {
        self.left = input;
    }

    fn restart_idle(&mut self, written: u64) {
        self.written = written;
        if self.handshake.is_none() {
            self.idle = self.idle_timeout.map(|timeout| self.now.saturating_add(timeout));
        }
    }

    pub(super) fn opened_by_peer(&mut self, idle_time_out: Option<u32>, written: u64) -> Result<(), Violation> {
        self.handshake = None;
        self.restart_idle(written);
        let milliseconds = idle_time_out.unwrap_or(0);
        if milliseconds > 0 {
            let timeout = Duration::from_millis(milliseconds.into());
            if timeout < SHORTEST {
                return Err(Violation::IdleTimeoutTooShort { milliseconds });
            }
            self.interval = timeout / 4;
            self.heartbeat = Some(self.now.saturating_add(self.interval));
        }
        Ok(())
    }

    /// The peer has to confirm a close in time.
    pub(super) fn limit_close(&mut self, options: &Options) {
        self.handshake = Some(self.now.saturating_add(options.handshake_timeout));
        self.heartbeat = None;
    }

    pub(super) const fn stop(&mut self) {
        self.handshake = None;
        self.idle_timeout = None;
        self.idle = None;
        self.heartbeat = None;
    }
}

impl Connection {
    /// Returns when [`Connection::handle_deadline`] is to be called. It changes with every call of another method.
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        let timers = &self.timers;
        [timers.handshake, timers.idle, timers.heartbeat].into_iter().flatten().min()
    }

    /// Sends an empty frame, or closes the connection, if it is time. It may be called early.
    ///
    /// The peer gets a frame at least within half of its idle timeout.
    pub fn handle_deadline(&mut self, now: Duration) {
        let now = self.timers.now.max(now);
        self.timers.now = now;
        let due = |deadline: Option<Duration>| deadline.is_some_and(|deadline| deadline <= now);
        if due(self.timers.handshake) {
            if self.closing {
                return self.finish(Reason::Local(None));
            }
            return self.fail(Violation::HandshakeTimeout);
        }
        if due(self.timers.idle) {
            // While the application does not read, the peer may have sent. While the output is full, a peer that is there reads it.
            let written = self.out.queue.taken();
            let is_stuck = self.is_output_blocked() && written == self.timers.written;
            if !self.is_blocked() || is_stuck {
                return self.fail(Violation::IdleTimeout);
            }
            self.timers.restart_idle(written);
        }
        if due(self.timers.heartbeat) {
            let appended = self.out.queue.appended();
            if appended == self.timers.appended && !self.has_output() && self.opened {
                self.out.empty();
            }
            self.timers.appended = self.out.queue.appended();
            self.timers.heartbeat = Some(now.saturating_add(self.timers.interval));
        }
    }
}
