//! The signals that end a process.

use std::{
    io,
    sync::atomic::{AtomicBool, Ordering},
};

use super::{Supervisor, SupervisorError};

impl Supervisor {
    /// Runs until the process gets SIGTERM or SIGINT, which is Ctrl-C, and drains. A further signal aborts the drain, and so does the
    /// first one if a part that failed has begun the drain. On Windows, these are Ctrl-C, Ctrl-Break, and the close of the console.
    ///
    /// The handlers of the signals stay installed: after this returns, further signals are ignored unless the process
    /// installs handlers of its own.
    ///
    /// # Errors
    ///
    /// Those of [`run_until`](Self::run_until), and [`Signal`](super::SupervisorErrorKind::Signal) if the handlers cannot
    /// be installed.
    ///
    /// ```no_run
    /// # async fn run(supervisor: consign::supervisor::Supervisor) -> Result<(), consign::supervisor::SupervisorError> {
    /// supervisor.run_until_signal().await
    /// # }
    /// ```
    pub async fn run_until_signal(self) -> Result<(), SupervisorError> {
        let mut first = Signals::new().map_err(SupervisorError::signal)?;
        let mut second = Signals::new().map_err(SupervisorError::signal)?;
        let is_signalled = AtomicBool::new(false);
        let shutdown = async {
            first.next().await;
            is_signalled.store(true, Ordering::Relaxed);
        };
        // It is polled when the drain has begun.
        let force = async {
            if is_signalled.load(Ordering::Relaxed) {
                // That which has begun it.
                second.next().await;
            }
            second.next().await;
        };
        self.drive(shutdown, force).await
    }
}

#[cfg(unix)]
struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

#[cfg(windows)]
struct Signals {
    ctrl_c: tokio::signal::windows::CtrlC,
    ctrl_break: tokio::signal::windows::CtrlBreak,
    close: tokio::signal::windows::CtrlClose,
}

#[cfg(windows)]
impl Signals {
    fn new() -> io::Result<Self> {
        use tokio::signal::windows::{ctrl_break, ctrl_c, ctrl_close};
        Ok(Self { ctrl_c: ctrl_c()?, ctrl_break: ctrl_break()?, close: ctrl_close()? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.ctrl_c.recv() => {}
            _ = self.ctrl_break.recv() => {}
            _ = self.close.recv() => {}
        }
    }
}

#[cfg(not(any(unix, windows)))]
struct Signals;

#[cfg(not(any(unix, windows)))]
impl Signals {
    fn new() -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    async fn next(&mut self) {
        std::future::pending::<()>().await;
    }
}
