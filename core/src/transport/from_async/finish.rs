//! The end of a receive that was stopped.

use std::{
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use futures_util::FutureExt;
use tokio::{sync::oneshot, time::sleep};

use super::{AsyncReceiver, Ended, Received, Release};
use crate::transport::{BoxFuture, Delivery, EntityInfo, Escaped, Lease, deadline::OPERATION_TIMEOUT, log_limit};

/// The target of all lines.
const TARGET: &str = "consign::transport";
/// Stands for the name of an entity that the receiver does not have.
const UNKNOWN: &str = "unknown";

/// Waits for the end of a receive that was stopped.
pub(super) async fn finish<R: AsyncReceiver>(
    receive: BoxFuture<Received<R>>,
    mut back: oneshot::Sender<Ended<R>>,
    is_wanted: Arc<AtomicBool>,
    info: EntityInfo,
) {
    let abandoned = async {
        back.closed().await;
        sleep(OPERATION_TIMEOUT).await;
    };
    let ended = tokio::select! {
        biased;
        ended = AssertUnwindSafe(receive).catch_unwind() => ended,
        () = abandoned => {
            return not_ended(&info);
        }
    };
    let Ok((receiver, mut result)) = ended else { return };
    let releases = match &mut result {
        Ok(deliveries) if !is_wanted.load(Ordering::Acquire) => release::<R>(deliveries),
        _ => Vec::new(),
    };
    if let Err(((_, Ok(mut deliveries)), _)) = back.send(((receiver, result), releases)) {
        drop(release::<R>(&mut deliveries));
        if !deliveries.is_empty() {
            lost(&info, deliveries.len());
        }
    }
}

/// Releases messages that were not dispatched. Those that were received and deleted stay. Each release has begun.
pub(super) fn release<R: AsyncReceiver>(deliveries: &mut Vec<Delivery<R::Lease>>) -> Vec<Release<R>> {
    let held = deliveries.extract_if(.., |delivery| delivery.lease.must_settle());
    held.map(|delivery| delivery.lease.release()).collect()
}

#[cold]
fn not_ended(info: &EntityInfo) {
    let (entity, reason) = (name(info), "ReceiveNotEnded");
    if let Some(suppressed) = log_limit(&entity, reason) {
        tracing::warn!(target: TARGET, entity, reason, suppressed,
            "a receive did not end after it was stopped: its messages stay locked until their locks end");
    }
}

#[cold]
pub(super) fn lost(info: &EntityInfo, messages: usize) {
    let (entity, reason) = (name(info), "MessagesLost");
    if let Some(suppressed) = log_limit(&entity, reason) {
        tracing::warn!(target: TARGET, entity, reason, messages, suppressed,
            "messages of receive-and-delete mode are lost: their receiver was dropped");
    }
}

fn name(info: &EntityInfo) -> String {
    Escaped(info.name.as_deref().unwrap_or(UNKNOWN)).to_string()
}
