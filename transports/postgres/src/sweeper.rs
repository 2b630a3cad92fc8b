use std::sync::{Arc, Weak};

use tokio::time::{Instant, sleep};
use tokio_postgres::types::Type;

use crate::{Inner, failure::Failure, log, pump};

/// Periodically handles what is due at entities without receivers, unfinished forwards, and locks of dead processes.
pub(crate) async fn run(inner: Weak<Inner>) {
    let mut failing = Failing::default();
    loop {
        let Some(interval) = inner.upgrade().map(|inner| inner.options.poll) else { return };
        // Processes that were started together do not sweep together.
        sleep(interval.mul_f64(0.5 + fastrand::f64())).await;
        let Some(strong) = inner.upgrade().filter(|inner| !inner.is_closed()) else { return };
        if let Err(failure) = company(&strong).await {
            tracing::debug!(
                failure = &std::io::Error::from(failure) as &dyn std::error::Error,
                "the sweep was not run"
            );
        }
        // A batch at a time, up to a maximum of rounds.
        for _ in 0..ROUNDS {
            match sweep(&strong).await {
                Ok(true) => {}
                Ok(false) => {
                    failing = Failing::default();
                    break;
                }
                Err(_) if strong.is_closed() => return,
                Err(failure) => {
                    failing.record(&strong, &failure);
                    break;
                }
            }
        }
        if let Err(failure) = forget_ids(&strong, Instant::now() + interval).await {
            if strong.is_closed() {
                return;
            }
            log::not_swept(&strong.options.schema, &failure, false);
        }
    }
}

/// Sweeps that have failed in a row: since when, and how many.
#[derive(Default)]
struct Failing {
    since: Option<Instant>,
    attempts: u32,
}

impl Failing {
    fn record(&mut self, inner: &Inner, failure: &Failure) {
        let since = *self.since.get_or_insert_with(Instant::now);
        self.attempts = self.attempts.saturating_add(1);
        let is_lasting = self.attempts >= pump::ATTEMPTS && since.elapsed() >= inner.database.timeout;
        log::not_swept(&inner.options.schema, failure, is_lasting);
    }
}

const ROUNDS: usize = 5;
/// How many ids one statement deletes.
const IDS: i32 = 10_000;

/// Deletes the ids whose window has passed, until `end`: as many as were accepted since the last time, however long that is ago.
async fn forget_ids(inner: &Inner, end: Instant) -> Result<(), Failure> {
    while !inner.is_closed() && Instant::now() < end {
        let deleted: Option<i64> = inner.value("SELECT {s}.forget_ids($1)", &[(&IDS, Type::INT4)]).await?;
        if deleted.is_none_or(|deleted| deleted < i64::from(IDS)) {
            break;
        }
    }
    Ok(())
}

/// Counts the other processes that listen. New ones notify this one.
async fn company(inner: &Inner) -> Result<(), Failure> {
    let listeners: Option<i64> = inner.value("SELECT count(*) FROM {s}.holders", &[]).await?;
    inner.set_listeners(listeners.unwrap_or(0));
    Ok(())
}

/// Returns whether there was something to do.
async fn sweep(inner: &Arc<Inner>) -> Result<bool, Failure> {
    let grace = i64::try_from(inner.options.grace.as_millis()).unwrap_or(i64::MAX);
    let sql = inner.sql("SELECT {s}.sweep($1)");
    let behind = inner.database.rows(&sql, &[(&grace, Type::INT8)]).await?;
    let mut is_stuck = false;
    for row in &behind {
        let entity: i64 = row.try_get(0)?;
        if let Err(failure) = pump::pump(inner, entity).await {
            // An entity that another transaction locks does not delay the others.
            crate::log::not_forwarded(entity, &failure);
            is_stuck = true;
        }
        inner.hub.wake(entity);
    }
    Ok(!behind.is_empty() && !is_stuck)
}
