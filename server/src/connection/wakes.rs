//! Which links of a connection the broker has something for.

use std::{
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Poll, Wake, Waker},
};

use consign_amqp::engine::LinkId;
use parking_lot::Mutex;

/// The links that were woken since they were last looked at.
#[derive(Default)]
pub(crate) struct Wakes {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    woken: Vec<Arc<LinkWake>>,
    task: Option<Waker>,
}

/// Wakes one link.
pub(crate) struct LinkWake {
    link: LinkId,
    /// Whether it is among the woken ones, so that each link is there once.
    is_woken: AtomicBool,
    wakes: Arc<Wakes>,
}

impl Wakes {
    /// Waits until a link is woken. Dropping the future loses none.
    pub(crate) async fn woken(&self) -> Vec<LinkId> {
        poll_fn(|cx| {
            let mut state = self.state.lock();
            if state.woken.is_empty() {
                state.task = Some(cx.waker().clone());
                return Poll::Pending;
            }
            let woken = std::mem::take(&mut state.woken);
            drop(state);
            let take = |wake: Arc<LinkWake>| {
                wake.is_woken.store(false, Ordering::Release);
                wake.link
            };
            Poll::Ready(woken.into_iter().map(take).collect())
        })
        .await
    }
}

impl LinkWake {
    pub(crate) fn new(link: LinkId, wakes: &Arc<Wakes>) -> Arc<Self> {
        Arc::new(Self { link, is_woken: AtomicBool::new(false), wakes: Arc::clone(wakes) })
    }
}

impl Wake for LinkWake {
    fn wake(self: Arc<Self>) {
        if self.is_woken.swap(true, Ordering::AcqRel) {
            return;
        }
        let wakes = Arc::clone(&self.wakes);
        let task = {
            let mut state = wakes.state.lock();
            state.woken.push(self);
            state.task.take()
        };
        if let Some(task) = task {
            task.wake();
        }
    }
}
