//! The task that receives for a group, as long as a call waits.

use std::sync::Arc;

use consign_core::transport::{ErrorKind, ReceiveError};
use tokio::time::{sleep, sleep_until};

use super::{
    group::{BATCH, Next, Running},
    lock::lock,
};
use crate::Inner;

pub(super) async fn run(inner: Arc<Inner>, mut running: Running) {
    loop {
        let wanted = match running.next() {
            Next::Receive(max) => max.min(BATCH),
            Next::Wait(instant) => {
                running.changed_or(sleep_until(instant)).await;
                continue;
            }
            Next::End => return,
        };
        let (entity, deletes) = (running.source().entity.id, running.source().deletes);
        // A locked delivery has a place for the job of its drop. While receivers wait for a message, they hold no place that
        // another needs.
        let mut places = Vec::new();
        if !deletes {
            match running.while_wanted(inner.chores.places(wanted)).await {
                Some(reserved) => places = reserved,
                None => continue,
            }
        }
        // The wait may have been long, and the holder of before it may be lost.
        let holder = inner.lock_holder().await;
        let asked = running.ask().min(BATCH);
        if asked == 0 {
            continue;
        }
        if !deletes && places.is_empty() {
            running.fail(ReceiveError::new(ErrorKind::General).with_detail("the runtime is shutting down"));
            continue;
        }
        let max = if deletes { asked } else { asked.min(places.len()) };
        let mut news = inner.hub.watch(entity);
        let fetched = match lock(&inner, running.source(), max, holder, &mut places).await {
            Ok(fetched) => fetched,
            Err(error) => {
                running.fail(error);
                continue;
            }
        };
        drop(places);
        if !fetched.deliveries.is_empty() {
            running.give_out(fetched.deliveries);
            continue;
        }
        if fetched.is_more {
            continue;
        }
        let wait = fetched.wait.map_or(inner.options.poll, |due| due.min(inner.options.poll));
        running
            .pause(async {
                tokio::select! {
                    _ = news.changed() => {}
                    () = sleep(wait) => {}
                }
            })
            .await;
    }
}
