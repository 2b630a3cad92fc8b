use std::sync::Arc;

use askama::Template;
use axum::{
    Extension,
    extract::{Query, State},
};
use consign_core::{
    administration::{Counts, EntityKind},
    message::EntityPath,
    transport::Capability,
};
use serde::{Deserialize, Serialize};

use super::{Answer, Frame, page};
use crate::page::{
    Shared,
    guard::Session,
    live::{EntityView, View, is_received_from, points},
    text::{Count, rate},
};

/// Entities of one page.
const PAGE: usize = 100;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Selected {
    q: String,
    page: usize,
}

/// The counts of an entity, on a page and in the stream of counts.
#[derive(Serialize)]
pub(in super::super) struct Row {
    pub(super) path: String,
    #[serde(skip)]
    pub(super) kind: &'static str,
    #[serde(skip)]
    pub(super) is_received_from: bool,
    pub(super) active: Count,
    pub(super) locked: Count,
    pub(super) scheduled: Count,
    pub(super) deferred: Count,
    pub(super) dead: Count,
    pub(super) arriving: String,
    pub(super) delivered: String,
    pub(super) depth: String,
    pub(super) arrivals: String,
}

#[derive(Template)]
#[template(path = "entities.html")]
struct Entities {
    frame: Frame,
    rows: Vec<Row>,
    q: String,
    page: usize,
    previous: Option<usize>,
    next: Option<usize>,
    matching: usize,
    omitted: usize,
    failure: Option<String>,
    has_rates: bool,
    can_peek: bool,
}

/// The entities of one page whose path has a text, in order.
pub(in super::super) fn selected<'v>(
    view: &'v View,
    q: &str,
    page: usize,
) -> impl Iterator<Item = (&'v str, &'v EntityView)> {
    matching(view, q).skip(page.saturating_mul(PAGE)).take(PAGE)
}

fn matching<'v>(view: &'v View, q: &str) -> impl Iterator<Item = (&'v str, &'v EntityView)> {
    let q = q.to_lowercase();
    let entities = view.entities.iter().map(|(path, entity)| (path.as_str(), entity));
    entities.filter(move |(path, _)| path.to_lowercase().contains(&q))
}

impl Row {
    pub(in super::super) fn new(path: &str, entity: &EntityView) -> Self {
        let count = |of: fn(&Counts) -> usize| entity.counts.as_ref().map(of).into();
        Self {
            path: path.to_owned(),
            kind: entity.kind.name(),
            is_received_from: is_received_from(entity.kind),
            active: count(|counts| counts.active),
            locked: count(|counts| counts.locked),
            scheduled: count(|counts| counts.scheduled),
            deferred: count(|counts| counts.deferred),
            dead: count(|counts| counts.dead_lettered),
            arriving: rate(entity.rates.map(|rates| rates.0)),
            delivered: rate(entity.rates.map(|rates| rates.1)),
            depth: points(&entity.depth),
            arrivals: points(&entity.arrivals),
        }
    }
}

pub(super) async fn show(
    State(shared): State<Arc<Shared>>,
    Extension(session): Extension<Session>,
    Query(Selected { q, page: number }): Query<Selected>,
) -> Answer {
    let view = shared.live.view(&shared).await;
    let matching = matching(&view, &q).count();
    let rows: Vec<_> = selected(&view, &q, number).map(|(path, entity)| Row::new(path, entity)).collect();
    page(&Entities {
        frame: Frame::new("Entities", &session),
        rows,
        page: number,
        previous: number.checked_sub(1),
        next: (matching > number.saturating_add(1).saturating_mul(PAGE)).then_some(number.saturating_add(1)),
        matching,
        omitted: view.omitted,
        failure: view.failure.clone(),
        has_rates: shared.broker().is_some(),
        can_peek: shared.supports(Capability::Peek),
        q,
    })
}

/// What the head of the pages of one entity shows.
pub(super) struct Head {
    pub(super) path: String,
    pub(super) row: Row,
    pub(super) has_rates: bool,
}

impl Head {
    /// Reads the counts of an entity, whatever sub-queue the path names.
    pub(super) async fn of(shared: &Shared, path: &EntityPath) -> Self {
        let path = path.parent();
        let view = shared.live.view(shared).await;
        let known = view.entities.iter().find(|(known, _)| known.eq_ignore_ascii_case(path.as_str()));
        let row = if let Some((path, entity)) = known {
            Row::new(path, entity)
        } else {
            let counts = shared.live.counts(shared, &path).await;
            Row::new(path.as_str(), &EntityView::first(EntityKind::Queue, counts))
        };
        Self { path: row.path.clone(), row, has_rates: shared.broker().is_some() }
    }
}
