//! A receive that waits for a message.

use std::sync::Arc;

use consign_core::transport::{ErrorKind, ReceiveError};
use tokio::time::sleep;

use super::{Deliveries, Source, kept::Answer, lock::lock};
use crate::{
    Inner,
    fetch::Call,
    idle::{Joined, Key},
};

/// The maximum of messages of one receive.
const BATCH: usize = 1_000;

/// Receives 1 to `max` messages, waiting for the first, or none if the call is cancelled.
pub(super) async fn receive(
    inner: Arc<Inner>,
    source: Arc<Source>,
    max: usize,
    call: Arc<Call<Answer>>,
) -> Result<Deliveries, ReceiveError> {
    let max = max.min(BATCH);
    // A session has one receiver.
    let key = Key::Messages(source.entity.id, source.part, source.deletes);
    let (is_shared, mut turn) = (source.session.is_none(), None);
    while call.is_wanted() {
        let holder = inner.holder().await;
        // A locked delivery has a place for the job of its drop. While a receiver waits for a message, it
        // holds no place that another needs.
        let mut places = Vec::new();
        if !source.deletes {
            call.pause(async { places = inner.chores.places(max).await }).await;
            if places.is_empty() {
                if !call.is_wanted() {
                    break;
                }
                return Err(ReceiveError::new(ErrorKind::General).with_detail("the runtime is shutting down"));
            }
        }
        let free = if source.deletes { max } else { places.len() };
        let mut news = inner.hub.watch(source.entity.id);
        let fetched = lock(&inner, &source, free, holder, &mut places).await?;
        if !fetched.deliveries.is_empty() {
            if is_shared && fetched.deliveries.len() == free {
                inner.idle.wake_one(key);
            }
            return Ok(fetched.deliveries);
        }
        if fetched.is_more {
            continue;
        }
        drop(places);
        if is_shared && turn.is_none() {
            match inner.idle.join(key) {
                Joined::Polls(own) => turn = Some(own),
                Joined::Waits(woken) => {
                    call.pause(async { turn = woken.await.ok().flatten() }).await;
                    continue;
                }
            }
        }
        let wait = fetched.wait.map_or(inner.options.poll, |due| due.min(inner.options.poll));
        call.pause(async {
            tokio::select! {
                _ = news.changed() => {}
                () = sleep(wait) => {}
            }
        })
        .await;
    }
    Ok(Vec::new())
}
