//! Actions on many messages: what will be done is shown before, and begins with a form.

use std::sync::Arc;

use askama::Template;
use axum::{
    Extension, Form,
    extract::{Query, State},
    http::StatusCode,
    response::Redirect,
};
use consign::dead_letters::{DeadLetters, ResubmitGuarantee};
use consign_core::{
    administration::Administration,
    message::{EntityPath, SequenceNumber},
    transport::{Capability, ErrorKind, ScheduleMessages},
};
use serde::Deserialize;

use super::{Answer, Frame, entities::Head, entity, page};
use crate::page::{
    Shared,
    body::FORMATS,
    browse,
    error::PageError,
    groups,
    guard::Session,
    jobs::{Action, Edit, EntityPathText, Spec},
    live::target_of,
};

#[derive(Deserialize)]
pub(super) struct Asked {
    action: Action,
    path: String,
    #[serde(default)]
    group: String,
    #[serde(default)]
    number: Option<u64>,
}

#[derive(Deserialize)]
pub(super) struct Begun {
    action: Action,
    path: String,
    #[serde(default)]
    group: String,
    #[serde(default)]
    number: String,
    #[serde(default)]
    target: String,
    #[serde(default)]
    content_type: String,
    #[serde(default)]
    per_second: String,
}

#[derive(Deserialize)]
pub(super) struct Scheduled {
    path: String,
    number: u64,
}

#[derive(Template)]
#[template(path = "confirm.html")]
struct Confirm {
    frame: Frame,
    head: Head,
    what: String,
    /// There is nothing to do.
    is_empty: bool,
    action: &'static str,
    path: String,
    group: String,
    number: String,
    target: String,
    formats: [&'static str; 3],
    undo_seconds: u64,
    guarantee: ResubmitGuarantee,
    is_subscription: bool,
}

/// The dead letters of a group.
#[derive(Default)]
struct Matching {
    last: SequenceNumber,
    count: u64,
    /// A job handles these alone, as there are more than were looked at.
    is_cut: bool,
}

async fn matching(
    shared: &Shared,
    entity: &EntityPath,
    group: Option<&str>,
    number: Option<u64>,
) -> Result<Matching, PageError> {
    let mut found = Matching::default();
    if let Some(number) = number.map(SequenceNumber::new) {
        let is_there =
            !shared.supports(Capability::Peek) || browse::find(shared, &entity.dead_letter(), number).await?.is_some();
        return Ok(Matching { last: number, count: is_there.into(), is_cut: false });
    }
    let is_all = groups::each(shared, entity, &groups::filter(group), |dead| {
        found.last = found.last.max(dead.sequence_number());
        found.count += 1;
    })
    .await?;
    // Without numbers, a job does not end at the last one.
    found.is_cut = !is_all && shared.supports(Capability::SequenceNumbers);
    Ok(found)
}

/// Checks that the messages of an entity can be removed.
async fn check_purge(shared: &Shared, path: &EntityPath) -> Result<(), PageError> {
    if !shared.supports(Capability::Purge) {
        return Err(PageError::refused(StatusCode::CONFLICT, "This transport cannot remove all messages."));
    }
    match shared.transport.counts(path).await {
        Err(error) if error.kind() == ErrorKind::EntityNotFound => Err(error.into()),
        _ => Ok(()),
    }
}

fn some(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

pub(super) async fn confirm(
    State(shared): State<Arc<Shared>>,
    Extension(session): Extension<Session>,
    Query(asked): Query<Asked>,
) -> Answer {
    let path = entity(&asked.path)?.parent();
    let group = some(asked.group);
    let found = match asked.action {
        Action::Purge => {
            check_purge(&shared, &path).await?;
            None
        }
        Action::Resubmit | Action::Remove => Some(matching(&shared, &path, group.as_deref(), asked.number).await?),
    };
    let letters = match (&found, asked.number) {
        (None, _) => String::new(),
        (_, Some(number)) => format!("dead letter {number}"),
        (Some(Matching { count: 1, .. }), None) => "1 dead letter".to_owned(),
        (Some(Matching { count, is_cut: true, .. }), None) => format!("the first {count} dead letters"),
        (Some(Matching { count, .. }), None) => format!("{count} dead letters"),
    };
    let (action, what) = match asked.action {
        Action::Resubmit => ("resubmit", format!("Resubmit {letters}")),
        Action::Remove => ("remove", format!("Remove {letters}")),
        Action::Purge => ("purge", format!("Remove all messages of {path} that are not locked")),
    };
    page(&Confirm {
        frame: Frame::new(what.clone(), &session),
        head: Head::of(&shared, &path).await,
        what,
        is_empty: found.is_some_and(|found| found.count == 0),
        action,
        target: target_of(&path).to_string(),
        is_subscription: path.subscription().is_some(),
        guarantee: DeadLetters::of(shared.transport.clone(), &path).guarantee(&target_of(&path)),
        path: path.to_string(),
        group: group.unwrap_or_default(),
        number: asked.number.map(|number| number.to_string()).unwrap_or_default(),
        formats: FORMATS,
        undo_seconds: shared.undo_window.as_secs(),
    })
}

pub(super) async fn begin(State(shared): State<Arc<Shared>>, Form(begun): Form<Begun>) -> Result<Redirect, PageError> {
    let path = entity(&begun.path)?.parent();
    let target = match some(begun.target) {
        Some(target) => entity(target.trim())?,
        None => target_of(&path),
    };
    let number = |text: String, name: &str| match some(text) {
        Some(text) => {
            text.trim().parse().map(Some).map_err(|_| PageError::invalid(format!("{name} is not a whole number.")))
        }
        None => Ok(None),
    };
    let group = some(begun.group);
    let one = number(begun.number, "The sequence number")?;
    let content_type = some(begun.content_type);
    if content_type.as_deref().is_some_and(|format| !Edit::is_format(format)) {
        return Err(PageError::invalid("Bodies cannot be written in this format."));
    }
    let per_second =
        number(begun.per_second, "The rate")?.map(|rate: u64| u32::try_from(rate).unwrap_or(u32::MAX).max(1));
    let found = match begun.action {
        Action::Purge => {
            check_purge(&shared, &path).await?;
            Matching::default()
        }
        Action::Resubmit | Action::Remove => match matching(&shared, &path, group.as_deref(), one).await? {
            Matching { count: 0, .. } => {
                return Err(PageError::refused(StatusCode::CONFLICT, "These dead letters are not there any more."));
            }
            found => found,
        },
    };
    let now = shared.now();
    let spec = Spec {
        id: uuid::Uuid::new_v4().simple().to_string(),
        action: begun.action,
        entity: EntityPathText(path),
        group,
        number: one,
        target: EntityPathText(target),
        content_type,
        per_second,
        last: found.last.get(),
        matching: found.count,
        is_cut: found.is_cut,
        begins_at: now.saturating_add(shared.undo_window).as_millis(),
        created_at: now.as_millis(),
    };
    let too_many = || PageError::refused(StatusCode::SERVICE_UNAVAILABLE, "Too many jobs have not ended.");
    let job = shared.jobs.add(spec)?.ok_or_else(too_many)?;
    tracing::info!(job = %job.shown().title, "the page has a new job");
    Ok(Redirect::to(&format!("/$page/job?id={}", job.spec.id)))
}

pub(super) async fn cancel_scheduled(
    State(shared): State<Arc<Shared>>,
    Form(Scheduled { path, number }): Form<Scheduled>,
) -> Result<Redirect, PageError> {
    let entity = entity(&path)?;
    shared.transport.cancel_scheduled(&entity, &[SequenceNumber::new(number)]).await?;
    tracing::info!(entity = %entity, number, "the page has cancelled a scheduled message");
    let path = percent_encoding::utf8_percent_encode(entity.as_str(), percent_encoding::NON_ALPHANUMERIC);
    Ok(Redirect::to(&format!("/$page/messages?path={path}&state=scheduled")))
}
