use std::{
    future::Future,
    io::IoSlice,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Buf, BytesMut};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite},
    time::{Instant, Sleep, sleep_until},
};

use super::{Application, FAR, Shared, State};
use crate::engine::{Connection, Received};

/// How often a task reads and writes before others have their turn.
const TURNS: usize = 8;

/// The least space for a read.
const READ: usize = 16 * 1_024;

/// How long a closed connection may take to write what is left and to have the peer close its direction.
const LINGER: Duration = Duration::from_secs(2);

/// Reads, writes and keeps time for one connection. It ends with the connection.
pub(super) struct Task<S, A> {
    stream: S,
    shared: Arc<Shared<A>>,
    input: BytesMut,
    /// When the engine wants to be called, or a closed connection has lingered.
    timer: Pin<Box<Sleep>>,
    /// The time that the timer is set to, at the latest that of the engine. None if it is not set.
    deadline: Option<Duration>,
    /// Whether the stream may keep what was written to it.
    unflushed: bool,
    /// Whether the stream cannot be written.
    broken: bool,
    end: End,
}

/// How far the end of a closed connection is.
#[derive(PartialEq, Eq)]
enum End {
    /// The connection is not closed.
    Not,
    /// The timer is that of the linger.
    Lingers,
    /// The direction to the peer is closed.
    Shut,
}

impl<S: AsyncRead + AsyncWrite + Unpin, A: Application> Task<S, A> {
    pub(super) fn new(stream: S, shared: Arc<Shared<A>>) -> Self {
        let timer = Box::pin(sleep_until(shared.began));
        Self {
            stream,
            shared,
            input: BytesMut::new(),
            timer,
            deadline: None,
            unflushed: false,
            broken: false,
            end: End::Not,
        }
    }

    /// One round. Returns whether another may get on.
    fn turn(&mut self, engine: &mut Connection, application: &mut A, cx: &mut Context<'_>) -> bool {
        let received = engine.receive(self.shared.now(), &mut self.input);
        let mut progress = application.handle(engine);
        if self.write(engine, cx) {
            application.written();
            progress |= received == Received::Blocked;
        }
        if received == Received::NeedsInput {
            progress |= self.read(engine, cx);
        }
        progress | self.keep_time(engine, cx)
    }

    /// Writes what the stream takes. Returns whether it took anything.
    fn write(&mut self, engine: &mut Connection, cx: &mut Context<'_>) -> bool {
        let mut wrote = false;
        while engine.has_output() && !self.broken {
            let mut output = engine.output();
            let mut slices = [IoSlice::new(&[]); 64];
            let count = output.chunks_vectored(&mut slices);
            let stream = Pin::new(&mut self.stream);
            match stream.poll_write_vectored(cx, slices.get(..count).unwrap_or_default()) {
                Poll::Ready(Ok(size)) if size > 0 => {
                    output.advance(size);
                    wrote = true;
                    self.unflushed = true;
                }
                Poll::Ready(_) => {
                    self.broken = true;
                    engine.disconnected();
                    return true;
                }
                Poll::Pending => break,
            }
        }
        if self.unflushed && !self.broken {
            match Pin::new(&mut self.stream).poll_flush(cx) {
                Poll::Ready(Ok(())) => self.unflushed = false,
                Poll::Ready(Err(_)) => {
                    self.broken = true;
                    engine.disconnected();
                }
                Poll::Pending => {}
            }
        }
        wrote
    }

    /// Reads what there is. Returns whether the engine has something to do.
    fn read(&mut self, engine: &mut Connection, cx: &mut Context<'_>) -> bool {
        self.input.reserve(READ);
        match pin!(self.stream.read_buf(&mut self.input)).poll(cx) {
            Poll::Ready(Ok(size)) if size > 0 => true,
            Poll::Ready(_) => {
                engine.disconnected();
                true
            }
            Poll::Pending => false,
        }
    }

    fn keep_time(&mut self, engine: &mut Connection, cx: &mut Context<'_>) -> bool {
        let Some(deadline) = engine.deadline() else {
            self.deadline = None;
            return false;
        };
        // Input only moves the deadline further away: a timer that is early calls the engine, and is set again.
        if self.deadline.is_none_or(|armed| deadline < armed) {
            self.deadline = Some(deadline);
            self.timer.as_mut().reset(self.shared.began + deadline.min(FAR));
        }
        let due = self.timer.as_mut().poll(cx).is_ready();
        if due {
            engine.handle_deadline(self.shared.now());
            self.deadline = None;
        }
        due
    }

    /// Ends the stream of a closed connection. What the peer still sends is read, as a reset would discard the last frame.
    fn finish(&mut self, engine: &mut Connection, cx: &mut Context<'_>) -> Poll<()> {
        if self.end == End::Not {
            self.end = End::Lingers;
            self.timer.as_mut().reset(Instant::now() + LINGER);
        }
        self.write(engine, cx);
        if self.broken || self.timer.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        if engine.has_output() {
            return Poll::Pending;
        }
        if self.end != End::Shut {
            let outcome = ready!(Pin::new(&mut self.stream).poll_shutdown(cx));
            self.end = End::Shut;
            if outcome.is_err() {
                return Poll::Ready(());
            }
        }
        for _ in 0..TURNS {
            self.input.clear();
            self.input.reserve(READ);
            let read = ready!(pin!(self.stream.read_buf(&mut self.input)).poll(cx));
            if !matches!(read, Ok(size) if size > 0) {
                return Poll::Ready(());
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin, A: Application> Future for Task<S, A> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        let shared = Arc::clone(&this.shared);
        let State { engine, application, task } = &mut *shared.lock();
        let mut turns = 0;
        while !engine.is_closed() && this.turn(engine, application, cx) {
            turns += 1;
            if turns == TURNS {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
        if engine.is_closed() {
            application.handle(engine);
            return this.finish(engine, cx);
        }
        *task = Some(cx.waker().clone());
        Poll::Pending
    }
}
