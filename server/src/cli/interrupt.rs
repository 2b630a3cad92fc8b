//! Ctrl-C, for a command that releases what it holds before it ends.

use std::future::Future;

use tokio::sync::watch;

use super::failure::{Exit, Failure};

/// Tells a command that it is interrupted.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt(watch::Receiver<()>);

impl Interrupt {
    /// An interrupt that happens when the sender is dropped.
    pub(crate) fn new() -> (watch::Sender<()>, Self) {
        let (sender, receiver) = watch::channel(());
        (sender, Self(receiver))
    }

    /// Waits for the interrupt.
    pub(crate) async fn wait(&self) {
        // It fails when the sender is dropped, and is not sent to.
        while self.0.clone().changed().await.is_ok() {}
    }

    pub(crate) fn has_happened(&self) -> bool {
        self.0.has_changed().is_err()
    }

    /// Runs a part of the command that holds nothing: an interrupt ends it at once.
    pub(crate) async fn ends<T>(&self, part: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        tokio::select! {
            biased;
            () = self.wait() => Err(interrupted()),
            done = part => done,
        }
    }
}

/// The failure of a command that was interrupted.
pub(crate) fn interrupted() -> Failure {
    Failure::new(Exit::Interrupted, "Interrupted", "interrupted")
}

/// Waits for Ctrl-C.
pub(crate) async fn ctrl_c() -> Failure {
    match tokio::signal::ctrl_c().await {
        Ok(()) => interrupted(),
        Err(error) => error.into(),
    }
}

/// Runs a command to the end of its releases after a Ctrl-C. One more ends it at once.
pub(crate) async fn run<F>(command: impl FnOnce(Interrupt) -> F) -> Result<(), Failure>
where
    F: Future<Output = Result<(), Failure>>,
{
    let (sender, interrupt) = Interrupt::new();
    let mut running = std::pin::pin!(command(interrupt));
    let failure = tokio::select! {
        biased;
        failure = ctrl_c() => failure,
        done = &mut running => return done,
    };
    drop(sender);
    tokio::select! {
        biased;
        failure = ctrl_c() => Err(failure),
        done = running => done.and(Err(failure)),
    }
}
