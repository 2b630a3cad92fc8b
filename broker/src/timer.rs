//! The timer of a broker.

use std::{
    future::{Future, pending},
    pin::{Pin, pin},
    sync::{Arc, Weak},
    task::{Context, Wake, Waker},
    time::Duration,
};

use tokio::{
    task::{AbortHandle, coop::unconstrained},
    time::{Instant, Sleep, sleep_until},
};

use super::{engine::Ticks, panics::contain, shared::Shared};
use crate::sync::{
    Mutex,
    atomic::{AtomicBool, Ordering},
};

/// The one timer of a broker: it is set for the next event that is due while a receiver waits, and applies the event when
/// it fires. No receiver has to be polled for that.
///
/// It runs in the runtime of the receiver that made it, and ends with that. Any thread can set it.
#[derive(Default)]
pub(super) struct Timer {
    /// The user's code never runs under this lock.
    running: Mutex<Option<Running>>,
    /// It has fired while the lock was held: the holder applies the events.
    has_fired: AtomicBool,
}

struct Running {
    /// The instant of the broker's clock that `sleep` is set for.
    at: Ticks,
    sleep: Pin<Box<Sleep>>,
    fires: Arc<Fires>,
    /// Of `fires`.
    waker: Waker,
    /// The task that is dropped with the runtime.
    task: AbortHandle,
}

/// Others wait for the timer that is made, and are told if it is not.
struct Making<'a>(&'a Shared);

/// What happens when the timer fires.
struct Fires {
    shared: Weak<Shared>,
    /// Whether its runtime ends.
    has_ended: AtomicBool,
}

/// Dropped with the tasks of a runtime, which is before the timers of the runtime fail.
struct RuntimeEnds(Arc<Fires>);

impl Shared {
    /// Makes the timer in the runtime that the caller is polled in, and sets it.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with time enabled, and in one that is shut down.
    #[cold]
    pub(super) fn make_timer(self: &Arc<Self>) {
        let making = Making(self);
        // The clock is read first, so that the timer is late by the time between the readings, and never early.
        let at = self.now().ticks;
        let sleep = Box::pin(sleep_until(Instant::now()));
        let fires = Arc::new(Fires { shared: Arc::downgrade(self), has_ended: AtomicBool::new(false) });
        let ends = RuntimeEnds(Arc::clone(&fires));
        let task = tokio::spawn(async move {
            let _ends = ends;
            pending::<()>().await;
        });
        let waker = Waker::from(Arc::clone(&fires));
        let mut made = Running { at, sleep, fires, waker, task: task.abort_handle() };
        if made.fires.has_ended.load(Ordering::SeqCst) {
            // The receiver would be woken to make another timer, without an end.
            let _ = made.sleep.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        }
        let superfluous = self.with_running(|running| {
            if running.is_some() || made.fires.has_ended.load(Ordering::SeqCst) {
                return Some(made);
            }
            running.replace(made)
        });
        drop(superfluous);
        drop(making);
    }

    /// Sets the timer for the next event that is due, if receivers wait. Does nothing if there is no timer.
    #[cold]
    pub(super) fn set_timer(&self) {
        // The clock may be the user's, and is not read under the lock. tokio's is read first, so that the timer is early by the time
        // between the readings, and is then set again.
        let now = (!self.follows_tokio()).then(|| (Instant::now(), self.now().ticks));
        let passed = self.with_running(|running| running.as_mut().and_then(|running| running.set(self, now)));
        let Some(at) = passed else { return };
        if self.now().ticks < at {
            // The runtime of the timer has a virtual time of its own. A receiver in this one makes another timer.
            drop(self.with_running(Option::take));
            self.with(|state| state.waiters.timer_has_ended());
        } else {
            self.apply_due();
        }
    }

    /// Runs `command` under the lock, and then does what the timer would have done that has fired meanwhile.
    fn with_running<T>(&self, command: impl FnOnce(&mut Option<Running>) -> T) -> T {
        let result = command(&mut self.timer.running.lock());
        if self.timer.has_fired.swap(false, Ordering::SeqCst) {
            self.apply_due();
        }
        result
    }

    /// A panic fails the broker, and is none of the call that has set the timer.
    fn apply_due(&self) {
        contain("the timer", || {
            let now = self.now();
            self.with(|state| {
                state.waiters.timer_has_fired();
                state.engine.advance(now);
            });
        });
    }
}

impl Running {
    /// Returns the instant of the event if it has passed by the time of the timer. `now` has the times of tokio and of a clock that
    /// does not advance with it.
    fn set(&mut self, shared: &Shared, now: Option<(Instant, Ticks)>) -> Option<Ticks> {
        let at = shared.arm_timer()?;
        if let Some((instant, now)) = now {
            self.sleep.as_mut().reset(instant + ticks(at.saturating_sub(now)));
        } else if at != self.at {
            // The two clocks advance together, and tokio's cannot be read outside a runtime when its time is virtual.
            let was = self.sleep.deadline();
            let new =
                if at > self.at { was.checked_add(ticks(at - self.at)) } else { was.checked_sub(ticks(self.at - at)) };
            self.sleep.as_mut().reset(new.unwrap_or(was));
        }
        self.at = at;
        // A budget of a task that is used up would look like a timer that has not fired.
        let sleep = pin!(unconstrained(self.sleep.as_mut()));
        sleep.poll(&mut Context::from_waker(&self.waker)).is_ready().then_some(at)
    }
}

fn ticks(ticks: Ticks) -> Duration {
    Duration::from_nanos(ticks)
}

impl Drop for Making<'_> {
    fn drop(&mut self) {
        let Self(shared) = self;
        if shared.with_running(|running| running.is_some()) {
            shared.set_timer();
        } else {
            shared.with(|state| state.waiters.timer_has_ended());
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Wake for Fires {
    fn wake(self: Arc<Self>) {
        let Some(shared) = self.shared.upgrade() else { return };
        // A panic would end the timers of the runtime. This may be the last owner of the broker.
        contain("the timer", move || {
            // Resetting it may fire it at once, under the lock.
            shared.timer.has_fired.store(true, Ordering::SeqCst);
            if shared.timer.running.try_lock().is_some() && shared.timer.has_fired.swap(false, Ordering::SeqCst) {
                shared.apply_due();
            }
        });
    }
}

impl Drop for RuntimeEnds {
    fn drop(&mut self) {
        let Self(fires) = self;
        fires.has_ended.store(true, Ordering::SeqCst);
        let Some(shared) = fires.shared.upgrade() else { return };
        let ended = shared.with_running(|running| running.take_if(|running| Arc::ptr_eq(&running.fires, fires)));
        if let Some(ended) = ended {
            drop(ended);
            contain("the end of a timer", || shared.with(|state| state.waiters.timer_has_ended()));
        }
    }
}
