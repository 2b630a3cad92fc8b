use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::time::{Instant, Sleep};

use super::super::{
    buffered_receiver::pause_after,
    health::{ConsumerFailure, Health},
    log::{Log, Receiving},
};
use crate::transport::{ReceiveError, SessionSource};

/// Accepting, with a pause after a failure that may pass, and after a session that was lost before its first message: 100 ms,
/// doubled each time up to 10 s.
#[derive(Default)]
pub(super) struct Accepting {
    failures: u32,
    /// Sessions in a row that were lost before their first message.
    lost: u32,
    pause: Option<Pin<Box<Sleep>>>,
}

impl Accepting {
    /// A session has ended. One that is lost before its first message could be accepted and lost again, without an end.
    pub(super) fn ended<A: SessionSource>(&mut self, source: &mut A, is_lost_unused: bool) {
        if !is_lost_unused {
            self.lost = 0;
        } else if self.pause.is_none() {
            source.stop();
            self.pause = Some(Box::pin(tokio::time::sleep_until(Instant::now() + pause_after(self.lost))));
            self.lost = self.lost.saturating_add(1);
        }
    }

    pub(super) fn poll<A: SessionSource>(
        &mut self,
        source: &mut A,
        log: &mut Log,
        health: &Health,
        cx: &mut Context<'_>,
    ) -> Poll<Result<A::Session, ReceiveError>> {
        loop {
            if let Some(pause) = &mut self.pause {
                std::task::ready!(pause.as_mut().poll(cx));
                self.pause = None;
            }
            match std::task::ready!(source.poll_accept(cx)) {
                Err(error) if error.is_retryable() => {
                    source.stop();
                    let pause = pause_after(self.failures);
                    self.failures += 1;
                    health.failed(ConsumerFailure::Receive(error.kind()));
                    log.receive_failed(&source.entity_info(), Receiving::Sessions, &error, Some(pause));
                    self.pause = Some(Box::pin(tokio::time::sleep_until(Instant::now() + pause)));
                }
                accepted => {
                    if self.failures > 0 {
                        log.receives_again(&source.entity_info(), std::mem::take(&mut self.failures));
                    }
                    return Poll::Ready(accepted);
                }
            }
        }
    }
}
