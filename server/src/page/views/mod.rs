//! The routes of the page and what they show.

mod actions;
mod assets;
mod dead_letters;
mod edit;
pub(super) mod entities;
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
use consign_core::{
    message::{EntityPath, PropertyValue},
    time::Timestamp,
};

use super::{Shared, error::PageError, events, guard::Session};

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

/// A time for people, in UTC.
fn time(at: Timestamp) -> String {
    if at == Timestamp::MAX { "never".to_owned() } else { at.to_string() }
}

/// Messages in a second. Empty where they are not counted.
pub(super) fn rate(rate: Option<f64>) -> String {
    match rate {
        None => String::new(),
        Some(rate) if rate < 10.0 => format!("{rate:.1}"),
        Some(rate) => format!("{rate:.0}"),
    }
}

/// The value of an application property as text.
pub(super) fn value(value: &PropertyValue) -> String {
    match value {
        PropertyValue::String(text) | PropertyValue::Uri(text) => text.to_string(),
        PropertyValue::Bytes(bytes) => super::hex::digits(&bytes[..bytes.len().min(256)]),
        PropertyValue::Uuid(bytes) => uuid::Uuid::from_bytes(*bytes).to_string(),
        PropertyValue::DateTime(at) => at.to_string(),
        PropertyValue::Bool(value) => value.to_string(),
        PropertyValue::Char(value) => value.to_string(),
        PropertyValue::U8(number) => number.to_string(),
        PropertyValue::U16(number) => number.to_string(),
        PropertyValue::U32(number) => number.to_string(),
        PropertyValue::U64(number) => number.to_string(),
        PropertyValue::I8(number) => number.to_string(),
        PropertyValue::I16(number) => number.to_string(),
        PropertyValue::I32(number) => number.to_string(),
        PropertyValue::I64(number) => number.to_string(),
        PropertyValue::F32(number) => number.to_string(),
        PropertyValue::F64(number) => number.to_string(),
        other => format!("{other:?}"),
    }
}
