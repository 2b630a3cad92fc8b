use std::{
    future::Future,
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Wake, Waker},
};

use tokio::time::{Instant, Sleep, sleep_until};

use super::Pending;
use crate::{rpc::CallErrorKind, sync::Ordering};

/// Fails the calls whose deadlines come, by one timer for all of them. It is polled by the loop of the replies.
pub(in crate::rpc) struct DeadlineTimer {
    pending: Arc<Pending>,
    /// Woken when there is something to do.
    task: Option<Waker>,
    timer: Option<Pin<Box<Sleep>>>,
    /// What the timer wakes: it says that there is something to do.
    alarm: Waker,
}

impl DeadlineTimer {
    /// So many calls are failed under one lock.
    const AT_ONCE: usize = 256;

    pub(in crate::rpc) fn new(pending: Arc<Pending>) -> Self {
        let alarm = Waker::from(Arc::new(Alarm(Arc::clone(&pending))));
        Self { pending, task: None, timer: None, alarm }
    }

    /// Does what is due. The task is woken when the next is.
    #[inline]
    pub(in crate::rpc) fn poll(&mut self, cx: &mut Context<'_>) {
        let is_told = self.task.as_ref().is_some_and(|task| task.will_wake(cx.waker()));
        if !is_told || self.pending.is_due.load(Ordering::Relaxed) {
            self.keep(cx.waker());
        }
    }

    #[cold]
    fn keep(&mut self, task: &Waker) {
        self.task = Some(task.clone());
        loop {
            let next = self.fail_due(task);
            let Some(next) = next else {
                self.timer = None;
                return;
            };
            let timer = match &mut self.timer {
                Some(timer) => {
                    timer.as_mut().reset(next);
                    timer
                }
                None => self.timer.insert(Box::pin(sleep_until(next))),
            };
            if timer.as_mut().poll(&mut Context::from_waker(&self.alarm)).is_pending() {
                return;
            }
        }
    }

    /// Fails the calls whose deadlines have come, and answers with the next deadline. An earlier one that is added later
    /// wakes `task`.
    fn fail_due(&self, task: &Waker) -> Option<Instant> {
        let now = Instant::now();
        let mut woken = Vec::new();
        loop {
            let mut table = self.pending.table();
            let mut next = None;
            while woken.len() < Self::AT_ONCE {
                match table.deadlines.pop(now) {
                    Ok(call) => {
                        let Some(slot) = table.slots.get_mut(&call) else { continue };
                        slot.failed.get_or_insert(CallErrorKind::Timeout);
                        woken.extend(slot.waker.take());
                    }
                    Err(at) => {
                        next = Some(at);
                        break;
                    }
                }
            }
            let replaced = next.and_then(|next| {
                self.pending.is_due.store(false, Ordering::Relaxed);
                table.kept_until = next;
                table.keeper.replace(task.clone())
            });
            drop(table);
            drop(replaced);
            woken.drain(..).for_each(Waker::wake);
            if let Some(next) = next {
                return next;
            }
        }
    }
}

impl Drop for DeadlineTimer {
    fn drop(&mut self) {
        let keeper = mem::take(&mut self.pending.table().keeper);
        drop(keeper);
    }
}

struct Alarm(Arc<Pending>);

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.0.wake_keeper();
    }
}
