//! One dead letter, under its lock.

use std::{future::Future, pin::pin, time::Duration};

use tokio::time::{Instant, sleep_until};

use super::{
    super::{
        ActionError,
        action::{NotCommitted, Step},
    },
    held::Kept,
};
use crate::{
    message::SequenceNumber,
    transport::{Lease, SendError, deadline::Timed},
};

/// What is to be done with it.
pub(super) struct Begun<L: Lease, F> {
    pub(super) number: SequenceNumber,
    pub(super) lease: Kept<L>,
    /// How it is removed.
    pub(super) step: Step<F, L>,
    /// Whether a copy was accepted before.
    pub(super) copied_before: bool,
}

/// What came of it.
pub(super) struct Finished<L: Lease> {
    pub(super) number: SequenceNumber,
    /// Whether a copy was accepted now.
    pub(super) copied: bool,
    /// Whether one was accepted before.
    pub(super) copied_before: bool,
    /// Whether the dead letter is removed.
    pub(super) result: Result<(), ActionError>,
    /// The lock, if the dead letter was not settled.
    pub(super) lease: Option<Kept<L>>,
}

/// Waits for the copy to be accepted, under the lock, and removes the dead letter then; or commits both.
pub(super) async fn finish<L, F>(begun: Begun<L, F>, operation: Duration) -> Finished<L>
where
    L: Lease,
    F: Future<Output = Result<(), SendError>>,
{
    let Begun { number, lease, step, copied_before } = begun;
    let copied = !matches!(step, Step::Remove);
    if let Step::Together(commit) = step {
        let committed = lease.commit(commit, operation).await;
        let (result, lease) = match committed {
            Ok(()) => (Ok(()), None),
            Err(NotCommitted { error, lease }) => (Err(error), lease),
        };
        return Finished { number, copied: result.is_ok(), copied_before, result, lease };
    }
    if let Step::SendFirst(send, _) = step {
        let mut send = pin!(async { Timed::new(send, operation).await? });
        // A renewal counts from its call, and one that is not answered makes the next no later.
        let mut asked = Instant::now();
        let sent = loop {
            let Some(half) = lease.renewal() else { break send.await };
            tokio::select! {
                biased;
                sent = &mut send => break sent,
                () = sleep_until(asked + half) => {}
            }
            asked = Instant::now();
            let Some(renewal) = lease.renew() else { break send.await };
            let renewal = Timed::new(renewal, operation.min(half));
            tokio::select! {
                biased;
                sent = &mut send => break sent,
                // Whether the lock is lost shows when the dead letter is settled.
                _ = renewal => {}
            }
        };
        if let Err(error) = sent {
            let result = Err(ActionError::send(error));
            return Finished { number, copied: false, copied_before, result, lease: Some(lease) };
        }
    }
    let settled = lease.complete(operation).await;
    let result = settled.map_err(|error| ActionError::settle(error, copied || copied_before));
    Finished { number, copied, copied_before, result, lease: None }
}
