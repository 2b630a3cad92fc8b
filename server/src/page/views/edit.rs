//! The form in which one dead letter is edited and resubmitted.

use std::sync::Arc;

use askama::Template;
use axum::{
    Extension, Form,
    extract::{Query, State},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use consign_core::message::SequenceNumber;
use serde::Deserialize;

use super::{Answer, Frame, entities::Head, entity, message, page, properties};
use crate::page::{
    Shared,
    error::PageError,
    guard::Session,
    hex,
    jobs::{self, Edit},
    live::target_of,
};

/// A larger body is not in the form, whose encoding takes up to three times as much.
const LARGEST: usize = 1 << 20;

#[derive(Deserialize)]
pub(super) struct Asked {
    path: String,
    number: u64,
}

#[derive(Deserialize)]
pub(super) struct Edited {
    path: String,
    number: u64,
    target: String,
    content_type: String,
    subject: String,
    /// `hex` if the body is in digits.
    form: String,
    body: String,
    /// The body is not in the form, and is kept.
    #[serde(default)]
    keep_body: bool,
    /// The application properties in JSON. Without the field they are kept.
    properties: Option<String>,
}

#[derive(Template)]
#[template(path = "edit.html")]
struct View {
    frame: Frame,
    head: Head,
    path: String,
    number: u64,
    target: String,
    content_type: String,
    subject: String,
    is_hex: bool,
    has_bytes: bool,
    is_too_large: bool,
    body: String,
    properties: String,
}

#[derive(Template)]
#[template(path = "resubmitted.html")]
struct Done {
    frame: Frame,
    head: Head,
    tab: &'static str,
    number: u64,
    target: String,
}

pub(super) async fn form(
    State(shared): State<Arc<Shared>>,
    Extension(session): Extension<Session>,
    Query(Asked { path, number }): Query<Asked>,
) -> Answer {
    let entity = entity(&path)?;
    if !entity.is_dead_letter() {
        return Err(PageError::invalid("Only dead letters are edited."));
    }
    let message = message::find(&shared, &path, number).await?;
    let is_too_large = message.payload().is_some_and(|bytes| bytes.len() > LARGEST);
    let (is_hex, body) = if is_too_large { Default::default() } else { message::editable(&message) };
    page(&View {
        frame: Frame::new(format!("Edit dead letter {number} of {}", entity.parent()), &session),
        head: Head::of(&shared, &entity).await,
        path: entity.to_string(),
        number,
        target: target_of(&entity).to_string(),
        content_type: message.content_type().unwrap_or_default().to_owned(),
        subject: message.subject().unwrap_or_default().to_owned(),
        is_hex,
        has_bytes: message.payload().is_some(),
        is_too_large,
        body,
        properties: properties::to_json(message.application_properties()),
    })
}

pub(super) async fn resubmit(
    State(shared): State<Arc<Shared>>,
    Extension(session): Extension<Session>,
    Form(edited): Form<Edited>,
) -> Result<Response, PageError> {
    let source = entity(&edited.path)?.parent();
    let target = entity(edited.target.trim())?;
    let number = SequenceNumber::new(edited.number);
    let body = if edited.keep_body {
        None
    } else if edited.form == "hex" {
        let bytes =
            hex::parse(&edited.body).ok_or_else(|| PageError::invalid("The body is not in hexadecimal digits."))?;
        Some(Bytes::from(bytes))
    } else {
        // A form ends lines by two characters.
        Some(Bytes::from(edited.body.replace("\r\n", "\n")))
    };
    let text = |text: String| Some(text).filter(|text| !text.is_empty());
    let application_properties = edited.properties.as_deref().map(properties::from_json).transpose()?;
    let edit = Edit {
        content_type: text(edited.content_type),
        subject: text(edited.subject),
        body,
        transcode: None,
        application_properties,
    };
    if !jobs::resubmit_one(&shared, &source, &target, number, edit)
        .await
        .map_err(|error| PageError::invalid(error.to_string()))?
    {
        return Err(PageError::refused(
            axum::http::StatusCode::CONFLICT,
            "The dead letter is not there any more, or another receiver has locked it.",
        ));
    }
    tracing::info!(entity = %source, number = edited.number, target = %target, "the page has resubmitted a dead letter");
    let done = Done {
        frame: Frame::new("Resubmitted", &session),
        head: Head::of(&shared, &source).await,
        tab: "dead",
        number: edited.number,
        target: target.to_string(),
    };
    Ok(page(&done).into_response())
}
