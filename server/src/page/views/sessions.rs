use std::sync::Arc;

use askama::Template;
use axum::{
    Extension,
    extract::{Query, State},
};
use serde::Deserialize;

use super::{Answer, Frame, entities::Head, entity, page};
use crate::page::{Shared, guard::Session};

/// Most sessions that are shown.
const SHOWN: usize = 1_000;

#[derive(Deserialize)]
pub(super) struct Asked {
    path: String,
}

#[derive(Template)]
#[template(path = "sessions.html")]
struct View {
    frame: Frame,
    head: Head,
    tab: &'static str,
    path: String,
    /// `None` where the transport cannot list them.
    sessions: Option<Vec<String>>,
    omitted: usize,
}

pub(super) async fn show(
    State(shared): State<Arc<Shared>>,
    Extension(session): Extension<Session>,
    Query(asked): Query<Asked>,
) -> Answer {
    let path = entity(&asked.path)?.parent();
    let mut sessions = match shared.broker() {
        Some(broker) => Some(broker.queue(path.as_str())?.sessions()),
        None => None,
    };
    let omitted = sessions.as_ref().map_or(0, |sessions| sessions.len().saturating_sub(SHOWN));
    if let Some(sessions) = &mut sessions {
        sessions.truncate(SHOWN);
    }
    page(&View {
        frame: Frame::new(format!("Sessions of {path}"), &session),
        head: Head::of(&shared, &path).await,
        tab: "sessions",
        path: path.to_string(),
        sessions,
        omitted,
    })
}
