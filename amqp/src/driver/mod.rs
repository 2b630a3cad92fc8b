//! What drives an engine on a stream: a task for each connection, and the state that it shares with the handles.

mod task;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Waker,
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::Instant,
};

use crate::engine::Connection;

/// Longer than anything waits. A timeout may be too long to be added to a time.
pub(crate) const FAR: Duration = Duration::from_secs(30 * 365 * 86_400);

/// What handles the events of an engine.
pub(crate) trait Application: Send + 'static {
    /// Handles the events that there are. Returns whether it took one from the engine.
    fn handle(&mut self, engine: &mut Connection) -> bool;

    /// Output was written.
    fn written(&mut self) {}
}

/// A connection, as its task and its handles see it.
pub(crate) struct Shared<A> {
    state: Mutex<State<A>>,
    began: Instant,
}

pub(crate) struct State<A> {
    pub(crate) engine: Connection,
    pub(crate) application: A,
    /// Wakes the task.
    task: Option<Waker>,
}

impl<A: Application> Shared<A> {
    /// Starts the task of a connection.
    ///
    /// # Panics
    /// Panics if it is called outside of a Tokio runtime with time.
    pub(crate) fn start<S>(stream: S, application: A, engine: impl FnOnce(Duration) -> Connection) -> Arc<Self>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let began = Instant::now();
        let state = State { engine: engine(Duration::ZERO), application, task: None };
        let shared = Arc::new(Self { state: Mutex::new(state), began });
        tokio::spawn(task::Task::new(stream, Arc::clone(&shared)));
        shared
    }

    /// Gives commands to the engine, and has the task write what they append.
    pub(crate) fn command<R>(&self, command: impl FnOnce(&mut Connection, &mut A) -> R) -> R {
        let mut state = self.lock();
        let State { engine, application, task } = &mut *state;
        let result = command(engine, application);
        let task = task.take();
        drop(state);
        if let Some(task) = task {
            task.wake();
        }
        result
    }

    /// Reads the state. The task does not run for it.
    pub(crate) fn read<R>(&self, read: impl FnOnce(&mut Connection, &mut A) -> R) -> R {
        let state = &mut *self.lock();
        read(&mut state.engine, &mut state.application)
    }

    fn lock(&self) -> MutexGuard<'_, State<A>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time of the engine.
    fn now(&self) -> Duration {
        self.began.elapsed()
    }
}
