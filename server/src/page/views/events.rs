//! The stream of counts and of the progress of jobs, as server-sent events.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    Extension,
    extract::{Query, State},
    http::StatusCode,
    response::{
        IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use futures_util::stream;
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;

use super::entities::{Row, selected};
use crate::page::{Shared, error::PageError, guard::Session, jobs::Shown};

/// How often a stream in which nothing changes checks whether its session has ended.
const CHECK: Duration = Duration::from_secs(15);
/// Most streams at a time.
static STREAMS: Semaphore = Semaphore::const_new(64);

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Watched {
    /// One entity alone.
    path: Option<String>,
    q: String,
    page: usize,
}

#[derive(Serialize)]
struct Update {
    entities: Vec<Row>,
    jobs: Vec<Shown>,
}

pub(super) async fn events(
    State(shared): State<Arc<Shared>>,
    Extension(session): Extension<Session>,
    Query(watched): Query<Watched>,
) -> Response {
    let Ok(permit) = STREAMS.try_acquire() else {
        return PageError::refused(StatusCode::SERVICE_UNAVAILABLE, "Too many pages are open.").into_response();
    };
    let views = shared.live.watch(&shared);
    let shutdown = shared.shutdown.subscribe();
    let begun = (shared, views, shutdown, watched, (session, permit), true);
    let updates = stream::unfold(begun, |(shared, mut views, mut shutdown, watched, held, is_first)| async move {
        if !is_first {
            loop {
                let changed = tokio::select! {
                    _ = shutdown.wait_for(|shutdown| *shutdown) => return None,
                    changed = views.changed() => changed.map(|()| true).ok()?,
                    () = tokio::time::sleep(CHECK) => false,
                };
                if !shared.guard.is_open(&held.0) {
                    return None;
                }
                if changed {
                    break;
                }
            }
        }
        // Without a page that is watched, counting may stop.
        drop(shared.live.watch(&shared));
        let view = views.borrow_and_update().clone();
        let entities = match &watched.path {
            Some(path) => {
                view.entities.get_key_value(path).into_iter().map(|(path, entity)| Row::new(path, entity)).collect()
            }
            None => selected(&view, &watched.q, watched.page).map(|(path, entity)| Row::new(path, entity)).collect(),
        };
        let update = Update { entities, jobs: shared.jobs.shown() };
        let event = Event::default().data(serde_json::to_string(&update).ok()?);
        Some((Ok::<_, Infallible>(event), (shared, views, shutdown, watched, held, false)))
    });
    Sse::new(updates).keep_alive(KeepAlive::default()).into_response()
}
