use std::sync::Arc;

use askama::Template;
use axum::{
    Extension,
    extract::{Query, State},
    http::header,
    response::{IntoResponse, Response},
};
use consign::dead_letters::Explained;
use consign_core::{Message, message::SequenceNumber};
use serde::Deserialize;

use super::{Answer, Frame, entities::Head, entity, messages::state_name, page};
use crate::page::{
    Shared,
    body::{self, Shown},
    browse,
    error::PageError,
    guard::Session,
    hex,
    text::{time, value},
};

#[derive(Deserialize)]
pub(super) struct Asked {
    path: String,
    number: u64,
}

/// One attempt to decode the body.
struct Attempt {
    codec: String,
    chosen: String,
    code: String,
    position: String,
    detail: String,
}

/// What only a dead letter has.
struct Death {
    reason: String,
    description: String,
    source: String,
    original_id: String,
    resubmitted: u32,
    attempts: Vec<Attempt>,
    is_trail_unreadable: bool,
}

#[derive(Template)]
#[template(path = "message.html")]
struct View {
    frame: Frame,
    head: Head,
    tab: &'static str,
    path: String,
    number: u64,
    state: &'static str,
    broker: Vec<(&'static str, String)>,
    properties: Vec<(&'static str, String)>,
    application: Vec<(String, String)>,
    body: Shown,
    size: usize,
    death: Option<Death>,
    is_scheduled: bool,
}

/// Finds the message of an address.
pub(super) async fn find(shared: &Shared, path: &str, number: u64) -> Result<Message, PageError> {
    let found = browse::find(shared, &entity(path)?, SequenceNumber::new(number)).await?;
    found.ok_or_else(|| PageError::not_found("message"))
}

fn death(shared: &Shared, message: &Message) -> Option<Death> {
    if !message.received().is_some_and(|received| received.dead_lettered) {
        return None;
    }
    let dead = Explained::new(message.clone(), shared.now());
    let attempts = dead.attempts().iter().map(|attempt| {
        let expected = attempt.expected().map(|expected| format!("expected {expected}"));
        let found = attempt.found().map(|found| format!("found {found}"));
        let path = attempt.path().map(|path| format!("at {path}"));
        let detail: Vec<_> = [expected, found, path].into_iter().flatten().collect();
        Attempt {
            codec: attempt.codec().to_owned(),
            chosen: attempt.chosen().to_string(),
            code: attempt.code().to_owned(),
            position: attempt.position().map(|position| position.to_string()).unwrap_or_default(),
            detail: detail.join(", "),
        }
    });
    Some(Death {
        reason: dead.reason().unwrap_or("(no reason)").to_owned(),
        description: dead.description().unwrap_or_default().to_owned(),
        source: dead.source().unwrap_or_default().to_owned(),
        original_id: dead.original_message_id().unwrap_or_default().to_owned(),
        resubmitted: dead.resubmit_count(),
        attempts: attempts.collect(),
        is_trail_unreadable: dead.is_trail_unreadable(),
    })
}

fn of_broker(message: &Message) -> Vec<(&'static str, String)> {
    let Some(received) = message.received() else { return Vec::new() };
    let mut rows = vec![
        ("Sequence number", received.sequence_number.to_string()),
        ("Enqueued", time(received.enqueued_time)),
        ("Expires", time(received.expires_at)),
        ("Delivery count", received.delivery_count.to_string()),
    ];
    if received.enqueued_sequence_number.get() != 0 {
        rows.push(("First sequence number", received.enqueued_sequence_number.to_string()));
    }
    if let Some(until) = received.locked_until {
        rows.push(("Locked until", time(until)));
    }
    rows
}

fn of_sender(message: &Message) -> Vec<(&'static str, String)> {
    let text = [
        ("MessageId", message.message_id()),
        ("ContentType", message.content_type()),
        ("Subject", message.subject()),
        ("CorrelationId", message.correlation_id()),
        ("SessionId", message.session_id()),
        ("PartitionKey", message.partition_key()),
        ("To", message.to()),
        ("ReplyTo", message.reply_to()),
        ("ReplyToSessionId", message.reply_to_session_id()),
    ];
    let mut rows: Vec<_> = text.into_iter().filter_map(|(name, text)| Some((name, text?.to_owned()))).collect();
    if let Some(at) = message.scheduled_enqueue_time() {
        rows.push(("ScheduledEnqueueTime", time(at)));
    }
    if let Some(wait) = message.time_to_live() {
        rows.push(("TimeToLive", format!("{} s", wait.as_secs_f64())));
    }
    rows
}

pub(super) async fn show(
    State(shared): State<Arc<Shared>>,
    Extension(session): Extension<Session>,
    Query(Asked { path, number }): Query<Asked>,
) -> Answer {
    let message = find(&shared, &path, number).await?;
    let entity = entity(&path)?;
    let state = state_name(&message);
    page(&View {
        frame: Frame::new(format!("Message {number} of {entity}"), &session),
        head: Head::of(&shared, &entity).await,
        tab: if entity.is_dead_letter() { "dead" } else { "messages" },
        path: entity.to_string(),
        number,
        state,
        broker: of_broker(&message),
        properties: of_sender(&message),
        application: message.application_properties().iter().map(|(name, of)| (name.to_owned(), value(of))).collect(),
        body: body::show(&message),
        size: message.body().size(),
        death: death(&shared, &message),
        is_scheduled: state == "scheduled",
    })
}

/// The bytes of a body, which a browser stores and does not show.
pub(super) async fn body(
    State(shared): State<Arc<Shared>>,
    Query(Asked { path, number }): Query<Asked>,
) -> Result<Response, PageError> {
    let message = find(&shared, &path, number).await?;
    let bytes = message.payload().map(<[u8]>::to_vec);
    let bytes = bytes.ok_or_else(|| PageError::invalid("The body is an AMQP value, which has no bytes."))?;
    let name = format!("attachment; filename=\"message-{number}\"");
    Ok(([(header::CONTENT_TYPE, "application/octet-stream".to_owned()), (header::CONTENT_DISPOSITION, name)], bytes)
        .into_response())
}

/// The body as text of a form: text, or digits.
pub(super) fn editable(message: &Message) -> (bool, String) {
    let bytes = message.payload().unwrap_or_default();
    match body::as_text(bytes) {
        // A browser sends other ends of lines than those that it was given.
        Some(text) if !text.contains('\r') => (false, text.to_owned()),
        _ => (true, hex::digits(bytes)),
    }
}
