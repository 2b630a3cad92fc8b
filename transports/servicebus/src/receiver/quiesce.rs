//! The end of a receive that was stopped.

use std::{
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
};

use consign_core::transport::{Delivery, Lease};
use futures_util::future::join_all;
use tokio::sync::oneshot;

use super::{
    lease::ServiceBusLease,
    live::Live,
    source::{Mode, Source},
};
use crate::log;

/// A link without credit, if it is still attached, and the deliveries that had arrived.
pub(super) struct Quiesced {
    pub(super) live: Option<Live>,
    pub(super) deliveries: Vec<Delivery<ServiceBusLease>>,
}

/// Takes the credit of a link back, and releases what has arrived unless a caller receives again.
pub(super) async fn quiesce(
    mut live: Live,
    source: Arc<Source>,
    back: oneshot::Sender<Quiesced>,
    is_wanted: Arc<AtomicBool>,
) {
    let taken_back = live.take_credit_back().await;
    let mut deliveries = Vec::new();
    poll_fn(|cx| {
        while let Poll::Ready(Ok(delivery)) = live.poll_next(cx) {
            deliveries.push(delivery);
        }
        Poll::Ready(())
    })
    .await;
    // A link that is detached releases nothing.
    if !is_wanted.load(Ordering::Acquire) && source.mode == Mode::PeekLock {
        release(&source, &mut deliveries).await;
    }
    let live = match taken_back {
        Ok(()) => Some(live),
        Err(failure) => {
            log::failed(&source.path, "the credit of a link was not taken back: it is detached", &failure);
            // It is over either way.
            let _ = live.detach().await;
            None
        }
    };
    if let Err(mut quiesced) = back.send(Quiesced { live, deliveries }) {
        match source.mode {
            Mode::PeekLock => release(&source, &mut quiesced.deliveries).await,
            Mode::ReceiveAndDelete if quiesced.deliveries.is_empty() => {}
            Mode::ReceiveAndDelete => log::lost(&source.path, quiesced.deliveries.len()),
        }
    }
}

async fn release(source: &Source, deliveries: &mut Vec<Delivery<ServiceBusLease>>) {
    let released = join_all(deliveries.drain(..).map(|delivery| delivery.lease.release())).await;
    if let Some(error) = released.into_iter().find_map(Result::err) {
        log::failed(&source.path, "messages were not released: they are locked until their locks run out", &error);
    }
}
