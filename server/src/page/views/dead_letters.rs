use std::sync::Arc;

use askama::Template;
use axum::{
    Extension,
    extract::{Query, State},
};
use consign_core::{message::SequenceNumber, transport::Capability};
use serde::Deserialize;

use super::{Answer, Frame, entities::Head, entity, messages::Row, page};
use crate::page::{
    Shared,
    groups::{self, Group},
    guard::Session,
    text::time,
};

#[derive(Deserialize)]
pub(super) struct Asked {
    path: String,
}

#[derive(Deserialize)]
pub(super) struct AskedGroup {
    path: String,
    group: String,
    #[serde(default)]
    from: u64,
}

struct GroupRow {
    group: Group,
    oldest: String,
}

#[derive(Template)]
#[template(path = "dead_letters.html")]
struct View {
    frame: Frame,
    head: Head,
    tab: &'static str,
    path: String,
    sub_queue: String,
    groups: Vec<GroupRow>,
    count: u64,
    others: u64,
    is_cut: bool,
    were_received: bool,
}

#[derive(Template)]
#[template(path = "group.html")]
struct GroupView {
    frame: Frame,
    head: Head,
    tab: &'static str,
    path: String,
    sub_queue: String,
    group: String,
    reason: String,
    error: String,
    rows: Vec<Row>,
    from: u64,
    next: Option<u64>,
    is_cut: bool,
}

pub(super) async fn groups(
    State(shared): State<Arc<Shared>>,
    Extension(session): Extension<Session>,
    Query(asked): Query<Asked>,
) -> Answer {
    let path = entity(&asked.path)?.parent();
    let found = groups::groups(&shared, &path).await?;
    let groups = found.largest_first.into_iter();
    page(&View {
        frame: Frame::new(format!("Dead letters of {path}"), &session),
        head: Head::of(&shared, &path).await,
        tab: "dead",
        sub_queue: path.dead_letter().to_string(),
        path: path.to_string(),
        groups: groups.map(|group| GroupRow { oldest: group.oldest.map(time).unwrap_or_default(), group }).collect(),
        count: found.count,
        others: found.others,
        is_cut: found.is_cut,
        were_received: !shared.supports(Capability::Peek),
    })
}

pub(super) async fn group(
    State(shared): State<Arc<Shared>>,
    Extension(session): Extension<Session>,
    Query(asked): Query<AskedGroup>,
) -> Answer {
    let path = entity(&asked.path)?.parent();
    let (letters, next, is_cut) = groups::list(&shared, &path, &asked.group, SequenceNumber::new(asked.from)).await?;
    let (reason, error) = letters.first().map(groups::signature).unwrap_or_default();
    page(&GroupView {
        frame: Frame::new(format!("Dead letters of {path}"), &session),
        head: Head::of(&shared, &path).await,
        tab: "dead",
        sub_queue: path.dead_letter().to_string(),
        path: path.to_string(),
        group: asked.group,
        reason,
        error,
        rows: letters.iter().map(|dead| Row::new(&shared, dead.message())).collect(),
        from: asked.from,
        next: next.map(SequenceNumber::get),
        is_cut,
    })
}
