//! One dead letter, under its lock.

use std::{future::Future, pin::pin};

use tokio::time::sleep;

use super::{super::ActionError, held::Kept};
use crate::{
    message::SequenceNumber,
    transport::{Lease, SendError},
};

/// What came of it.
pub(super) struct Finished<L: Lease> {
    pub(super) number: SequenceNumber,
    /// Whether a copy was accepted now.
    pub(super) copied: bool,
    /// Whether the dead letter is removed.
    pub(super) result: Result<(), ActionError>,
    /// The lock, if the dead letter was not settled.
    pub(super) lease: Option<Kept<L>>,
}

/// Waits for the copy to be accepted, under the lock, and removes the dead letter then.
pub(super) async fn finish<L: Lease>(
    number: SequenceNumber,
    lease: Kept<L>,
    send: Option<impl Future<Output = Result<(), SendError>>>,
    copied_before: bool,
) -> Finished<L> {
    let copied = send.is_some();
    if let Some(send) = send {
        let mut send = pin!(send);
        let sent = loop {
            let Some(half) = lease.renewal() else { break send.await };
            tokio::select! {
                biased;
                sent = &mut send => break sent,
                () = sleep(half) => {}
            }
            let Some(renewal) = lease.renew() else { break send.await };
            tokio::select! {
                biased;
                sent = &mut send => break sent,
                // Whether the lock is lost shows when the dead letter is settled.
                _ = renewal => {}
            }
        };
        if let Err(error) = sent {
            return Finished { number, copied: false, result: Err(ActionError::send(error)), lease: Some(lease) };
        }
    }
    let settled = lease.complete().await;
    let result = settled.map_err(|error| ActionError::settle(error, copied || copied_before));
    Finished { number, copied, result, lease: None }
}
