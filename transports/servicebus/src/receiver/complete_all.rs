//! Completes several deliveries, those of one link by ranges of their numbers.

use std::sync::Arc;

use consign_amqp::types::Accepted;
use consign_core::transport::{BoxFuture, CompleteAll, SettleError};
use futures_util::future::join_all;

use super::settle::{OnLink, Settling};

type Failures = Vec<(usize, SettleError)>;

/// Completes deliveries. A lease that has none settles by its own future.
pub(super) fn complete_all(batch: impl Iterator<Item = Result<OnLink, Settling>>) -> CompleteAll<Settling> {
    let mut parts: Vec<BoxFuture<Failures>> = Vec::new();
    let mut run: Vec<OnLink> = Vec::new();
    let mut next = 0;
    for taken in batch {
        let is_continued = match (&taken, run.last()) {
            (Ok(held), Some(last)) => Arc::ptr_eq(&held.origin, &last.origin),
            (_, last) => last.is_none(),
        };
        if !is_continued {
            parts.push(complete(std::mem::take(&mut run), next));
        }
        match taken {
            Ok(held) => run.push(held),
            Err(settling) => parts.push(one(settling, next)),
        }
        next += 1;
    }
    parts.push(complete(run, next));
    CompleteAll::from_future(async move { join_all(parts).await.into_iter().flatten().collect() })
}

fn one(settling: Settling, index: usize) -> BoxFuture<Failures> {
    Box::pin(async move { settling.await.err().map(|error| (index, error)).into_iter().collect() })
}

/// Completes deliveries of one link, whose indexes in the batch end before `end`. It begins within the call.
fn complete(mut run: Vec<OnLink>, end: usize) -> BoxFuture<Failures> {
    let first = end - run.len();
    if run.len() == 1
        && let Some(held) = run.pop()
    {
        return one(held.complete(), first);
    }
    let Some(origin) = run.first().map(|held| Arc::clone(&held.origin)) else {
        return Box::pin(std::future::ready(Vec::new()));
    };
    let state = Accepted {}.into();
    let Ok(confirmations) = origin.settler.begin_confirmed(run.iter().map(|held| held.id), &state) else {
        // Each finds out by itself how it can be settled.
        let parts: Vec<_> = run.into_iter().enumerate().map(|(at, held)| one(held.complete(), first + at)).collect();
        return Box::pin(async move { join_all(parts).await.into_iter().flatten().collect() });
    };
    Box::pin(async move {
        let answers = confirmations.wait().await.into_iter().enumerate();
        answers.filter_map(|(index, answer)| Some((first + index, origin.confirmed(answer, &state).err()?))).collect()
    })
}
