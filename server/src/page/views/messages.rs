use std::sync::Arc;

use askama::Template;
use axum::{
    Extension,
    extract::{Query, State},
};
use consign_core::{
    Message,
    message::{MessageState, SequenceNumber},
    transport::Capability,
};
use serde::Deserialize;

use super::{Answer, Frame, entities::Head, entity, page};
use crate::page::{
    Shared, body,
    browse::{self, Filter},
    guard::Session,
    text::time,
};

#[derive(Deserialize)]
pub(super) struct Asked {
    path: String,
    #[serde(default)]
    from: u64,
    #[serde(default)]
    q: String,
    #[serde(default)]
    state: String,
}

/// A message in a list.
pub(super) struct Row {
    pub(super) number: u64,
    /// The message can be shown: a transport that cannot peek does not find it.
    pub(super) is_linked: bool,
    pub(super) id: String,
    pub(super) subject: String,
    pub(super) session: String,
    pub(super) enqueued: String,
    pub(super) state: &'static str,
    pub(super) size: usize,
    pub(super) excerpt: String,
}

#[derive(Template)]
#[template(path = "messages.html")]
struct Messages {
    frame: Frame,
    head: Head,
    tab: &'static str,
    path: String,
    rows: Vec<Row>,
    from: u64,
    next: Option<u64>,
    q: String,
    state: String,
    were_received: bool,
    is_cut: bool,
    fewer: Option<(usize, usize)>,
    can_purge: bool,
}

impl Row {
    pub(super) fn new(shared: &Shared, message: &Message) -> Self {
        let received = message.received();
        Self {
            number: browse::number(message).unwrap_or_default().get(),
            is_linked: shared.supports(Capability::Peek),
            id: message.message_id().unwrap_or_default().to_owned(),
            subject: message.subject().unwrap_or_default().to_owned(),
            session: message.session_id().unwrap_or_default().to_owned(),
            enqueued: received.map(|received| time(received.enqueued_time)).unwrap_or_default(),
            state: state_name(message),
            size: message.body().size(),
            excerpt: body::excerpt(message),
        }
    }
}

pub(super) fn state_name(message: &Message) -> &'static str {
    match message.received().map(|received| received.state) {
        Some(MessageState::Deferred) => "deferred",
        Some(MessageState::Scheduled) => "scheduled",
        _ => "active",
    }
}

fn state_of(name: &str) -> Option<MessageState> {
    match name {
        "active" => Some(MessageState::Active),
        "deferred" => Some(MessageState::Deferred),
        "scheduled" => Some(MessageState::Scheduled),
        _ => None,
    }
}

pub(super) async fn show(
    State(shared): State<Arc<Shared>>,
    Extension(session): Extension<Session>,
    Query(asked): Query<Asked>,
) -> Answer {
    let path = entity(&asked.path)?;
    let filter = Filter { text: &asked.q, state: state_of(&asked.state) };
    let listed = browse::list(&shared, &path, SequenceNumber::new(asked.from), &filter).await?;
    page(&Messages {
        frame: Frame::new(format!("Messages of {path}"), &session),
        head: Head::of(&shared, &path).await,
        tab: if path.is_sub_queue() { "" } else { "messages" },
        path: path.to_string(),
        rows: listed.messages.iter().map(|message| Row::new(&shared, message)).collect(),
        from: asked.from,
        next: listed.next.map(SequenceNumber::get),
        q: asked.q,
        state: asked.state,
        were_received: listed.were_received,
        is_cut: listed.is_cut,
        fewer: listed.fewer,
        can_purge: shared.supports(Capability::Purge),
    })
}
