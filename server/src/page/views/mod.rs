//! The routes of the page and what they show.

mod actions;
mod assets;
mod dead_letters;
mod edit;
mod entities;
mod events;
mod jobs;
mod login;
mod message;
mod messages;
mod properties;
mod sessions;

use std::sync::Arc;

use askama::Template;
use axum::{
    Router,
    response::{Html, Redirect},
    routing::{get, post},
};
use consign_core::message::EntityPath;

use super::{Shared, error::PageError, guard::Session};

pub(super) type Answer = Result<Html<String>, PageError>;

/// What every page shows.
pub(super) struct Frame {
    pub(super) title: String,
    pub(super) csrf: String,
    pub(super) has_key: bool,
}

impl Frame {
    fn new(title: impl Into<String>, session: &Session) -> Self {
        Self { title: title.into(), csrf: session.csrf.clone(), has_key: session.has_key }
    }
}

fn page(template: &impl Template) -> Answer {
    Ok(Html(template.render()?))
}

/// All routes.
pub(super) fn routes() -> Router<Arc<Shared>> {
    Router::new()
        .route("/$page", get(async || Redirect::permanent("/$page/")))
        .route("/$page/", get(entities::show))
        .route("/$page/events", get(events::events))
        .route("/$page/assets/{name}", get(assets::get))
        .route("/$page/login", get(login::form).post(login::login))
        .route("/$page/logout", post(login::logout))
        .route("/$page/messages", get(messages::show))
        .route("/$page/message", get(message::show))
        .route("/$page/body", get(message::body))
        .route("/$page/sessions", get(sessions::show))
        .route("/$page/dead-letters", get(dead_letters::groups))
        .route("/$page/dead-letters/group", get(dead_letters::group))
        .route("/$page/edit", get(edit::form).post(edit::resubmit))
        .route("/$page/confirm", get(actions::confirm))
        .route("/$page/cancel", post(actions::cancel_scheduled))
        .route("/$page/jobs", get(jobs::list).post(actions::begin))
        .route("/$page/job", get(jobs::show))
        .route("/$page/job/stop", post(jobs::stop))
}

/// The entity of a path in an address.
fn entity(path: &str) -> Result<EntityPath, PageError> {
    Ok(EntityPath::new(path)?)
}
